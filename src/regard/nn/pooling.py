"""Pooling of padded sequences of states to one vector each."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from regard.attention.masks import padding
from regard.attention.memory import Memory
from regard.nn.encoders.transformer import mean
from regard.shapes import Float, Lengths, States


class Pooling(nn.Module, ABC):
    """Reduce padded sequences of states to one vector each; zeros for a sequence of length 0."""

    @abstractmethod
    def forward(self, states: States, lengths: Lengths) -> Float[Tensor, "batch width"]:
        """States `(batch, position, width)` of `lengths (batch,)` -> `(batch, width)`."""


class AveragePooling(Pooling):
    """The mean of the states."""

    def forward(self, states: States, lengths: Lengths) -> Float[Tensor, "batch width"]:
        memory = Memory.of(states, lengths)
        return mean(memory.value, padding(lengths, states.shape[1]), lengths)


class MaximumPooling(Pooling):
    """The maximum of each number over the positions."""

    def forward(self, states: States, lengths: Lengths) -> Float[Tensor, "batch width"]:
        outside = ~padding(lengths, states.shape[1]).readable()
        empty = (lengths == 0)[:, None]
        lowest = torch.finfo(states.dtype).min
        least = states.new_full(
            (len(states), 1, states.shape[2]), lowest
        )  # amax needs at least one position
        whole = torch.cat([states.masked_fill(outside[..., None], lowest), least], 1)
        return whole.amax(1).masked_fill(empty, 0.0)
