"""The laws of attention and of decoders, for anybody's modules: `check_attention(MyAttention(...))`.

A broken law raises AssertionError with its name and the largest difference. Modules are copied first, and inputs come
from a generator of their own: nothing of the caller's changes, gradients and random states included.
"""

from regard.testing.attention import check_attention
from regard.testing.decoders import check_decoder

__all__ = ["check_attention", "check_decoder"]
