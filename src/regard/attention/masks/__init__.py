"""Masks: which keys each query may read. True means that it may attend; `&` joins masks.

A mask keeps its structure (lengths, causality, a window) until the dense boolean tensor is needed, so that a fused
kernel can use the structure. Every torch function accepts a mask and sees its dense tensor.
"""

from regard.attention.masks.documents import (
    Documents,
    PerHead,
    Prefix,
    documents,
    per_head,
    prefix,
)
from regard.attention.masks.protocol import Both, Dense, Mask, Near, Within, as_mask
from regard.attention.masks.structured import Padding, Window, causal, padding, window

__all__ = [
    "Both",
    "Dense",
    "Documents",
    "Mask",
    "Near",
    "Padding",
    "PerHead",
    "Prefix",
    "Window",
    "Within",
    "as_mask",
    "causal",
    "documents",
    "padding",
    "per_head",
    "prefix",
    "window",
]
