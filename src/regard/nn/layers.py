"""Layers: residuals, dropout, feed-forward networks and pooling."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.attention.masks import Mask, padding
from regard.attention.memory import Memory
from regard.kernels.dropout import dropout
from regard.shapes import Lengths, States, Vectors, to_float32


class Residual(nn.Module, ABC):
    """A residual connection with layer normalisation around a sublayer f, in two methods.

        residual.add(x, f(residual.input(x)))

    States have any leading axes, `(..., width)`. The norm adds `epsilon` to the
    variance.
    """

    def __init__(self, width: int, dropout: float = 0.0, epsilon: float = 1e-5):
        super().__init__()
        self.norm = nn.LayerNorm(width, epsilon)
        self.dropout = Dropout(dropout)

    @abstractmethod
    def input(self, states: Tensor) -> Tensor:
        """Return the input of the sublayer."""

    @abstractmethod
    def add(self, states: Tensor, output: Tensor) -> Tensor:
        """Add the sublayer's output to the states."""


class PostNorm(Residual):
    """norm(x + dropout(f(x))) (Vaswani 2017, section 3.1)."""

    def input(self, states: Tensor) -> Tensor:
        return states

    def add(self, states: Tensor, output: Tensor) -> Tensor:
        return self.norm(states + self.dropout(output))


class PreNorm(Residual):
    """x + dropout(f(norm(x))) (Xiong 2020, 2002.04745).

    It trains without warm-up and needs a norm after the last layer.
    """

    def input(self, states: Tensor) -> Tensor:
        return self.norm(states)

    def add(self, states: Tensor, output: Tensor) -> Tensor:
        return states + self.dropout(output)


class FeedForward(nn.Sequential):
    """W_2 relu(W_1 x + b_1) + b_2 at every position (Vaswani 2017, equation 2).

    `(..., width)` -> `(..., width)`.
    """

    def __init__(self, width: int, hidden: int, activation: nn.Module | None = None):
        layers = nn.Linear(width, hidden), nn.Linear(hidden, width)
        super().__init__(
            layers[0], nn.ReLU() if activation is None else activation, layers[1]
        )
        for layer in layers:
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)


class SwiGLU(nn.Module):
    """W_3 (silu(W_1 x) * W_2 x), without biases (Shazeer 2020, 2002.05202, equation 6)."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)
        for layer in (self.gate, self.up, self.down):
            nn.init.xavier_uniform_(layer.weight)

    def forward(self, states: Tensor) -> Tensor:
        return self.down(functional.silu(self.gate(states)) * self.up(states))


class Dropout(nn.Module):
    """In training, set numbers to zero with probability `rate` (in [0, 1)) and scale the others; else the identity."""

    def __init__(self, rate: float = 0.0):
        super().__init__()
        self.rate = rate

    def forward(self, states: Tensor) -> Tensor:
        return dropout(states, self.rate) if self.training and self.rate else states

    def extra_repr(self) -> str:
        """Return the rate, for `repr`."""
        return f"rate={self.rate}"


class VariationalDropout(Dropout):
    """Dropout with one mask for all positions of a sequence `(batch, position, width)` (Gal 2016, 1512.05287)."""

    def forward(self, states: Tensor) -> Tensor:
        if not (self.training and self.rate):
            return states
        return states * dropout(
            states.new_ones(len(states), 1, states.shape[-1]), self.rate
        )


class Pooling(nn.Module, ABC):
    """Reduce padded sequences of states to one vector each.

    Zeros for a sequence of length 0.
    """

    @abstractmethod
    def forward(self, states: States, lengths: Lengths) -> Vectors:
        """Process states `(batch, position, width)` of `lengths (batch,)`.

        Returns:
            `(batch, width)`.
        """


class AveragePooling(Pooling):
    """The mean of the states."""

    def forward(self, states: States, lengths: Lengths) -> Vectors:
        memory = Memory.of(states, lengths)
        return mean_over_positions(
            memory.value, padding(lengths, states.shape[1]), lengths
        )


class MaximumPooling(Pooling):
    """The maximum of each number over the positions."""

    def forward(self, states: States, lengths: Lengths) -> Vectors:
        outside = ~padding(lengths, states.shape[1]).readable()
        empty = (lengths == 0)[:, None]
        lowest = torch.finfo(states.dtype).min
        least = states.new_full(
            (len(states), 1, states.shape[2]), lowest
        )  # amax needs at least one position
        padded = torch.cat([states.masked_fill(outside[..., None], lowest), least], 1)
        return padded.amax(1).masked_fill(empty, 0.0)


def mean_over_positions(states: States, mask: Mask, lengths: Lengths) -> Tensor:
    """Mean over the allowed positions: `(batch, width)`, zero where there are none."""
    allowed = mask.dense().mT.to(states.dtype)
    total = to_float32(states * allowed).sum(
        1
    )  # half precision overflows in long sequences
    return (total / lengths.clamp(min=1)[:, None]).to(states.dtype)
