"""Parts of a Transformer layer beside attention: residuals, dropout and the position-wise network."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from torch import Tensor, nn
from torch.nn import functional

from regard.errors import InputError
from regard.kernels.dropout import dropout


def expect_one_width(whole: str, parts: Mapping[str, int | None]) -> None:
    """Raise InputError, which lists the widths of all parts, if they are not all equal. None fits any width."""
    known = {name: width for name, width in parts.items() if width is not None}
    if len({*known.values()}) > 1:
        found = ", ".join(f"{name} {width}" for name, width in known.items())
        raise InputError(
            f"the parts of {whole} need one width; found {found}; make them with the same width"
        )


def width_in(module: nn.Module) -> int | None:
    """The width of a layer's input; None if it takes any, or is of a kind that does not show it."""
    match module:
        case nn.Linear():
            return module.in_features
        case nn.LayerNorm() | nn.RMSNorm():
            return module.normalized_shape[-1]
        case nn.Sequential():
            return _first([width_in(each) for each in module])
        case _:
            return None


def width_out(module: nn.Module) -> int | None:
    """The width of a layer's output; None if it is that of the input, or the layer is of a kind that does not show
    it."""
    match module:
        case nn.Linear():
            return module.out_features
        case nn.Sequential():
            return _first([width_out(each) for each in reversed(list(module))])
        case _:
            return width_in(module)


def _first(widths: Sequence[int | None]) -> int | None:
    return next((each for each in widths if each is not None), None)


SIDES = "query", "key", "value"


class Residual(nn.Module, ABC):
    """A residual connection with layer normalisation around a sublayer f, in two methods:

        residual.add(x, f(residual.input(x)))

    States have any leading axes, `(..., width)`. The norm adds `epsilon` to the variance.
    """

    def __init__(self, width: int, dropout: float = 0.0, epsilon: float = 1e-5):
        super().__init__()
        self.norm = nn.LayerNorm(width, epsilon)
        self.dropout = Dropout(dropout)

    @abstractmethod
    def input(self, states: Tensor) -> Tensor:
        """The input of the sublayer."""

    @abstractmethod
    def add(self, states: Tensor, output: Tensor) -> Tensor:
        """Add the sublayer's output to the states."""


def check_layer(
    feedforward: nn.Module, residuals: Sequence[Residual], **reads: Sequence[int | None]
) -> None:
    """Check that a layer's parts have one width. `reads` are the widths of each attention's inputs. Raises
    ValueError."""
    inputs = {
        f"{name} {side}": width
        for name, widths in reads.items()
        for side, width in zip(SIDES, widths, strict=False)
    }
    ends = {
        "feedforward input": width_in(feedforward),
        "feedforward output": width_out(feedforward),
    }
    norms = {f"norm {at}": width_in(each.norm) for at, each in enumerate(residuals)}
    expect_one_width("a layer", inputs | ends | norms)


class PostNorm(Residual):
    """norm(x + dropout(f(x))) (Vaswani 2017, section 3.1)."""

    def input(self, states: Tensor) -> Tensor:
        return states

    def add(self, states: Tensor, output: Tensor) -> Tensor:
        return self.norm(states + self.dropout(output))


class PreNorm(Residual):
    """x + dropout(f(norm(x))) (Xiong 2020, 2002.04745). It trains without warm-up and needs a norm after the last
    layer."""

    def input(self, states: Tensor) -> Tensor:
        return self.norm(states)

    def add(self, states: Tensor, output: Tensor) -> Tensor:
        return states + self.dropout(output)


class FeedForward(nn.Sequential):
    """W_2 relu(W_1 x + b_1) + b_2 at every position (Vaswani 2017, equation 2): `(..., width)` -> `(..., width)`."""

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
        for each in (self.gate, self.up, self.down):
            nn.init.xavier_uniform_(each.weight)

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
        """The rate, for `repr`."""
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
