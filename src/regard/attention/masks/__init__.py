"""Masks: which keys each query may read. True means that it may attend; `&` joins masks.

A mask keeps its structure (lengths, causality, a window) until the dense boolean tensor is needed, so that a fused
kernel can use the structure. Every torch function accepts a mask and sees its dense tensor.
"""

from regard.attention.masks.protocol import Both, Dense, Mask, Near, as_mask
from regard.attention.masks.structured import Padding, Window, causal, padding, window

__all__ = ["Both", "Dense", "Mask", "Near", "Padding", "Window", "as_mask", "causal", "padding", "window"]
