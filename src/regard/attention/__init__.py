"""The soft dictionary lookup and its parts.

Scores, masks, alignments, memories, heads, and the recorder of weights.
"""

from regard.attention.attend import Attend, Read, attend

__all__ = ["Attend", "Read", "attend"]
