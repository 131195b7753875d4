"""The soft dictionary lookup and its parts: scores, masks, alignments, memories, heads, and the recorder of weights."""

from regard.attention.lookup import Attend, Read, attend

__all__ = ["Attend", "Read", "attend"]
