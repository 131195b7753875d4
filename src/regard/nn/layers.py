"""Layers: residuals, dropout, feed-forward networks and pooling."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.attention.masks import Mask, padding
from regard.attention.memory import Memory
from regard.errors import InputError
from regard.kernels.dropout import dropout
from regard.shapes import Float, Lengths, States, to_float32


def expect_one_width(owner: str, parts: Mapping[str, int | None]) -> None:
    """None fits any width.

    Raises:
        InputError: , which lists the widths of all parts, if they are not all
            equal.
    """
    widths = {name: width for name, width in parts.items() if width is not None}
    if len({*widths.values()}) > 1:
        listing = ", ".join(f"{name} {width}" for name, width in widths.items())
        raise InputError(
            f"the parts of {owner} need one width; found {listing}; make them with the same width"
        )


def width_in(module: nn.Module) -> int | None:
    """Return the width of a layer's input.

    None if it takes any, or is of a kind that does not show it.
    """
    match module:
        case nn.Linear():
            return module.in_features
        case nn.LayerNorm() | nn.RMSNorm():
            return module.normalized_shape[-1]
        case nn.Sequential():
            return _first([width_in(layer) for layer in module])
        case _:
            return None


def width_out(module: nn.Module) -> int | None:
    """Return the width of a layer's output.

    None if it is that of the input, or the layer is of a kind that does not show it.
    """
    match module:
        case nn.Linear():
            return module.out_features
        case nn.Sequential():
            return _first([width_out(layer) for layer in reversed(list(module))])
        case _:
            return width_in(module)


def _first(widths: Sequence[int | None]) -> int | None:
    return next((width for width in widths if width is not None), None)


SIDES = "query", "key", "value"


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


def check_layer(
    feedforward: nn.Module, residuals: Sequence[Residual], **reads: Sequence[int | None]
) -> None:
    """Check that a layer's parts have one width.

    `reads` are the widths of each attention's inputs.

    Raises:
        ValueError: See above.
    """
    inputs = {
        f"{name} {side}": width
        for name, widths in reads.items()
        for side, width in zip(SIDES, widths, strict=False)
    }
    ends = {
        "feedforward input": width_in(feedforward),
        "feedforward output": width_out(feedforward),
    }
    norms = {
        f"norm {at}": width_in(residual.norm) for at, residual in enumerate(residuals)
    }
    expect_one_width("a layer", inputs | ends | norms)


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
        self.gate, self.up = (
            nn.Linear(width, hidden, bias=False),
            nn.Linear(width, hidden, bias=False),
        )
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


def make_dropout(rate: float, *, variational: bool) -> Dropout:
    """Dropout of single numbers, or `variational` dropout with one mask for all positions."""
    return (VariationalDropout if variational else Dropout)(rate)


class Pooling(nn.Module, ABC):
    """Reduce padded sequences of states to one vector each.

    Zeros for a sequence of length 0.
    """

    @abstractmethod
    def forward(self, states: States, lengths: Lengths) -> Float[Tensor, "batch width"]:
        """Process states `(batch, position, width)` of `lengths (batch,)`.

        Returns:
            `(batch, width)`.
        """


class AveragePooling(Pooling):
    """The mean of the states."""

    def forward(self, states: States, lengths: Lengths) -> Float[Tensor, "batch width"]:
        memory = Memory.of(states, lengths)
        return mean_over_positions(
            memory.value, padding(lengths, states.shape[1]), lengths
        )


class MaximumPooling(Pooling):
    """The maximum of each number over the positions."""

    def forward(self, states: States, lengths: Lengths) -> Float[Tensor, "batch width"]:
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
