"""Alignments that stay in training, with draws that are the same for everybody: then the laws can be stated of them."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.attention import Attend
from regard.attention.align import Align, Aligned, AlignInput, Hard, Monotonic, StraightThrough
from regard.attention.memory import Memory
from regard.attention.record import record

DRAWS = torch.empty(131, dtype=torch.float64).exponential_(generator=torch.Generator().manual_seed(0))

DRAWN: dict[str, Callable[[], Align]] = {
    "hard": Hard,
    "hard-all-soft": lambda: Hard(1.0),
    "straight-through": StraightThrough,
    "monotonic": lambda: Monotonic(noise=0.0),
}
"""Alignments that draw in training, or expect what they would draw."""


class SameDraws(TorchFunctionMode):
    """What is drawn for a key depends on its place alone: not on the query, the head, the sequence or the batch."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.exponential_:
            return args[0].copy_(DRAWS[: args[0].shape[-1]])
        return func(*args, **(kwargs or {}))


class InTraining(Align):
    """An alignment that is in training whatever is asked of it."""

    def __init__(self, align: Align):
        super().__init__()
        self.align = align
        self.train()

    def train(self, mode: bool = True) -> "InTraining":
        super().train(True)
        return self

    def forward(self, inputs: AlignInput) -> Aligned:
        with SameDraws():
            return self.align(*inputs)


class ReadAndDrawn(nn.Module):
    """What is read, and beside it what training needs of the draws: the log-probability and the entropy."""

    def __init__(self, attend: Attend):
        super().__init__()
        self.attend = attend

    def forward(self, query: Tensor, memory: Memory) -> Tensor:
        with record(self.attend, differentiable=True) as maps:
            context = self.attend(query, memory)
        [[draw]] = maps.draws.values() or [[None]]
        if draw is None:  # there was no key to draw
            return torch.cat([context, context.new_zeros(*context.shape[:-1], 2)], -1)
        return torch.cat([context, draw.log_probability[..., None], draw.entropy[..., None]], -1)
