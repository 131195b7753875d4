"""The laws of attention and of decoders, as tests for users' own modules.

`check_attention(MyAttention(...))`.

A broken law raises AssertionError with its name and the largest difference. Modules are
copied and inputs come from a separate generator, so nothing of the caller's changes,
gradients and random state included.
"""

from regard.testing.attention import check_attention
from regard.testing.decoders import check_decoder

__all__ = ["check_attention", "check_decoder"]
