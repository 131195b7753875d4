"""Dropout with cheap random numbers on a CPU."""

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

LEVELS = 256  # values of one random byte


def dropout(states: Tensor, rate: float) -> Tensor:
    """Set each number to zero with probability `rate` and scale up the others.

    On a CPU, PyTorch's generator draws one number at a time, which takes a tenth of a
    training step. Here it only seeds a generator that fills bytes, so the result is
    still a function of torch's random state. The rate is rounded to 256ths, 255 at
    most, and the scale is that of the rounded rate.
    """
    if states.device.type != "cpu":
        return functional.dropout(states, rate)
    closed = min(round(rate * LEVELS), LEVELS - 1)
    if torch.compiler.is_compiling():
        return states * _FACTORS(states.detach(), closed)
    return states * _factors(states, closed)  # faster than calling the operator


def _factors(states: Tensor, closed: int) -> Tensor:
    """Return the factor of each state: 0 in `closed` of 256 cases."""
    seed = int(torch.randint(2**62, ()))
    count = states.numel()
    words = np.random.SFC64(seed).random_raw(-(-count // 8))
    noise = torch.from_numpy(words.view(np.uint8)[:count])
    is_open = noise.view(states.shape) >= closed
    scale = LEVELS / (LEVELS - closed)
    return is_open.to(states.dtype).mul_(scale)


def _empty_factors(states: Tensor, closed: int) -> Tensor:
    return states.new_empty(states.shape)


torch.library.define(
    "regard::dropout_factors",
    "(Tensor states, int closed) -> Tensor",
    tags=(torch.Tag.nondeterministic_seeded,),
)
torch.library.impl("regard::dropout_factors", "cpu", _factors)
torch.library.register_fake("regard::dropout_factors", _empty_factors)
_FACTORS = torch.ops.regard.dropout_factors.default
