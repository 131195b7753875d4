"""Which keys each query may read: small values, True = may attend, joined by `&`.

A mask keeps its structure (lengths, causality, a window) until somebody needs the dense boolean tensor, so that a fused
kernel can use the structure instead. Every torch function accepts a mask and sees its dense tensor.
"""

from regard.attention.masks.protocol import Both, Dense, Mask, Near, as_mask
from regard.attention.masks.structured import Padding, Window, causal, padding, window

__all__ = ["Both", "Dense", "Mask", "Near", "Padding", "Window", "as_mask", "causal", "padding", "window"]
