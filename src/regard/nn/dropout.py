"""Dropout (Srivastava 2014)."""

from torch import Tensor, nn

from regard.kernels.dropout import dropout


class Dropout(nn.Module):
    """In training, zeroes numbers with probability `rate` (in [0, 1)) and scales the others; else the identity."""

    def __init__(self, rate: float = 0.0):
        super().__init__()
        self.rate = rate

    def forward(self, states: Tensor) -> Tensor:
        return dropout(states, self.rate) if self.training and self.rate else states

    def extra_repr(self) -> str:
        """The rate, for `repr`."""
        return f"rate={self.rate}"


class VariationalDropout(Dropout):
    """The same, but the units that are dropped are those of all positions of a sequence `(batch, position, width)`
    (Gal 2016, 1512.05287)."""

    def forward(self, states: Tensor) -> Tensor:
        if not (self.training and self.rate):
            return states
        return states * dropout(states.new_ones(len(states), 1, states.shape[-1]), self.rate)


def make_dropout(rate: float, *, variational: bool) -> Dropout:
    """Of single numbers, or of the same units at all positions."""
    return (VariationalDropout if variational else Dropout)(rate)
