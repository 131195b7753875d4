"""The soft dictionary lookup and its parts: scores, masks, alignments, memories, heads, and the recorder of weights."""

from regard.attention.lookup import Read, attend
from regard.attention.module import Attend

__all__ = ["Attend", "Read", "attend"]
