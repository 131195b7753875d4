"""Averages of weights: a moving one kept during training, and the mean of several checkpoints."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from regard.training.state import local


class MovingAverage:
    """average <- d average + (1 - d) weights after every update, with d = min(decay, (1 + n) / (10 + n)).

    The smaller d of the first updates keeps the random initial weights out of short runs. Holds one tensor per
    parameter (this process's part, where weights are sharded) and allocates nothing per update.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], decay: float) -> None:
        self.parameters = list(parameters)
        self.decay = decay
        self._weights = [local(parameter) for parameter in parameters]
        self._average = [weights.clone() for weights in self._weights]

    @torch.no_grad()
    def update(self, count: int) -> None:
        """Move towards the weights after update `count`."""
        decay = min(self.decay, (1 + count) / (10 + count))
        torch._foreach_lerp_(self._average, self._weights, 1 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Replace the weights by the average; restore them afterwards."""
        original = [weights.clone() for weights in self._weights]
        torch._foreach_copy_(self._weights, self._average)
        try:
            yield
        finally:
            torch._foreach_copy_(self._weights, original)


def mean(several: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of checkpoints' weights, name by name, summed in fp32; integer buffers are the last one's."""
    result = {}
    for name, last in several[-1].items():
        if not last.is_floating_point():
            result[name] = last
            continue
        total = torch.zeros_like(last, dtype=torch.promote_types(last.dtype, torch.float32))
        for weights in several:
            total += weights[name]
        result[name] = (total / len(several)).to(last.dtype)
    return result
