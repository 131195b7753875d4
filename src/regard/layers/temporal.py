"""What a sequence is read by when it is not recurrent: convolutions that see the past, and lookups in it (Mishra 2018,
1707.03141, section 3). Each block hands on what it was given with what it found beside it."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.attention import Attend
from regard.masks import causal
from regard.memory import Memory
from regard.scores import ScaledDot
from regard.shapes import Inputs, States


class CausalConvolution(nn.Linear):
    """W [x_{t-d}; x_t] + b: a convolution of kernel 2 and dilation d; zeros stand before the beginning."""

    def __init__(self, input_width: int, width: int, dilation: int):
        super().__init__(2 * input_width, width)
        self.dilation = dilation

    def forward(self, states: Inputs) -> States:  # pyright: ignore[reportIncompatibleMethodOverride]
        """States `(batch, position, input_width)` -> `(batch, position, width)`."""
        before = functional.pad(states, (0, 0, self.dilation, 0))[:, : states.shape[1]]
        return super().forward(torch.cat([before, states], -1))


class DenseBlock(nn.Module):
    """[x; tanh(f) * sigmoid(g)], where f and g are causal convolutions of x."""

    def __init__(self, input_width: int, filters: int, dilation: int):
        super().__init__()
        self.both = CausalConvolution(input_width, 2 * filters, dilation)
        self.width = input_width + filters

    def forward(self, states: Inputs) -> States:
        signal, gate = self.both(states).chunk(2, -1)
        return torch.cat([states, signal.tanh() * gate.sigmoid()], -1)


class TemporalConvolution(nn.Sequential):
    """Dense blocks whose dilations 1, 2, 4, ... reach from the last of so many positions to the first.

    The paper's listing counts the exponents from 1; all dilations would then be even, and no block could see the
    position just before. Here they count from 0, as many of them: the logarithm of `positions` to base 2, rounded up.
    """

    def __init__(self, input_width: int, positions: int, filters: int):
        count = max(1, (positions - 1).bit_length())
        widths = [input_width + place * filters for place in range(count)]
        super().__init__(*(DenseBlock(width, filters, 2**place) for place, width in enumerate(widths)))
        self.width = input_width + count * filters


class AttentionBlock(nn.Module):
    """[x; read]: every position reads itself and those before it, by scaled dot products of linear maps."""

    def __init__(self, input_width: int, key_width: int, value_width: int):
        super().__init__()
        self.query, self.key = nn.Linear(input_width, key_width), nn.Linear(input_width, key_width)
        self.value = nn.Linear(input_width, value_width)
        self.attend = Attend(ScaledDot())
        self.width = input_width + value_width

    def forward(self, states: Inputs) -> States:
        count = states.shape[1]
        mask = causal(count, count, device=states.device)
        memory = Memory(self.key(states), self.value(states), mask, clean=False)
        read: Tensor = self.attend.read(self.query(states), self.attend.prepare(memory)).context
        return torch.cat([states, read], -1)
