"""The simple neural attentive learner: Mishra, Rohaninejad, Chen, Abbeel 2018 (1707.03141)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.attention import Attend
from regard.attention.masks import causal, padding
from regard.attention.memory import Memory
from regard.attention.scores import ScaledDot
from regard.nn.decoders.protocol import State
from regard.nn.kv_cache import Past, WriteCounter
from regard.shapes import Float, Inputs, Lengths, States

StepInputs = Float[Tensor, "batch input_width"]
StepOutputs = Float[Tensor, "batch width"]
"""One position of a block's input and output."""


class CausalConvolution(nn.Linear):
    """W [x_{t-d}; x_t] + b: a convolution of kernel 2 and dilation d, with zeros before the beginning."""

    def __init__(self, input_width: int, width: int, dilation: int):
        super().__init__(2 * input_width, width)
        self.dilation = dilation

    def forward(self, states: Inputs) -> States:  # pyright: ignore[reportIncompatibleMethodOverride]
        """States `(batch, position, input_width)` -> `(batch, position, width)`."""
        before = functional.pad(states, (0, 0, self.dilation, 0))[:, : states.shape[1]]
        return super().forward(torch.cat([before, states], -1))

    def step(self, states: StepInputs, past: Sequence[Tensor]) -> StepOutputs:
        """One more position `(batch, input_width)`. `past` holds the earlier positions, each of which begins with the
        same features."""
        width = states.shape[1]
        before = (
            past[-self.dilation][:, :width]
            if len(past) >= self.dilation
            else torch.zeros_like(states)
        )
        return super().forward(torch.cat([before, states], -1))


class DenseBlock(nn.Module):
    """[x; tanh(f) * sigmoid(g)], where f and g are causal convolutions of x."""

    def __init__(self, input_width: int, filters: int, dilation: int):
        super().__init__()
        self.both = CausalConvolution(input_width, 2 * filters, dilation)
        self.width = input_width + filters

    def forward(self, states: Inputs) -> States:
        return beside(states, self.both(states))

    def step(self, states: StepInputs, past: Sequence[Tensor]) -> StepOutputs:
        """Read one more position."""
        return beside(states, self.both.step(states, past))


def beside(
    states: Float[Tensor, "*batch width"], both: Float[Tensor, "*batch parts"]
) -> Float[Tensor, "*batch wider"]:
    """[x; tanh(f) * sigmoid(g)] from x and [f; g]."""
    signal, gate = both.chunk(2, -1)
    return torch.cat([states, signal.tanh() * gate.sigmoid()], -1)


class TemporalConvolution(nn.Sequential):
    """Dense blocks of dilations 1, 2, 4, ... that together reach over all `positions`.

    The paper's listing counts the exponents from 1. All dilations would then be even, and no block would see the
    previous position. Here they count from 0; their number is the paper's, the base-2 logarithm of `positions`, rounded
    up.
    """

    def __init__(self, input_width: int, positions: int, filters: int):
        count = max(1, (positions - 1).bit_length())
        widths = [input_width + place * filters for place in range(count)]
        super().__init__(
            *(
                DenseBlock(width, filters, 2**place)
                for place, width in enumerate(widths)
            )
        )
        self.width = input_width + count * filters

    def start(self, batch: int) -> None:
        """There is no state beside the outputs."""

    def step(
        self, states: StepInputs, past: Sequence[Tensor], carried: None
    ) -> tuple[StepOutputs, None]:
        """Read one more position; `past` holds the outputs of earlier ones."""
        for block in self:
            assert isinstance(block, DenseBlock)
            states = block.step(states, past)
        return states, carried


class AttentionBlock(nn.Module):
    """[x; read]: every position reads itself and earlier positions by scaled dot attention over linear maps."""

    def __init__(self, input_width: int, key_width: int, value_width: int):
        super().__init__()
        self.query, self.key = (
            nn.Linear(input_width, key_width),
            nn.Linear(input_width, key_width),
        )
        self.value = nn.Linear(input_width, value_width)
        self.attend = Attend(ScaledDot())
        self.width = input_width + value_width

    def forward(self, states: Inputs) -> States:
        count = states.shape[1]
        mask = causal(count, count, device=states.device)
        memory = Memory(self.key(states), self.value(states), mask, clean=False)
        read: Tensor = self.attend.read(
            self.query(states), self.attend.prepare(memory)
        ).context
        return torch.cat([states, read], -1)

    def start(self, batch: int) -> Past:
        """A KV cache of no positions."""
        weight = self.key.weight
        key, value = (
            weight.new_zeros(batch, 0, each.out_features)
            for each in (self.key, self.value)
        )
        return Past(key, value, 0, WriteCounter(0))

    def step(
        self, states: StepInputs, past: Sequence[Tensor], carried: Past
    ) -> tuple[StepOutputs, Past]:
        """Read one more position; `carried` is the KV cache of earlier ones."""
        query, key, value = (
            each(states)[:, None] for each in (self.query, self.key, self.value)
        )
        new = self.attend.prepare(Memory(key, value))
        grown = carried.append(new.key, new.value)
        read: Tensor = self.attend.read(query, grown.memory()).context
        return torch.cat([states, read[:, 0]], -1), grown


@dataclass(frozen=True, eq=False)
class SnailState(State):
    """The state between steps: the outputs `(batch, width)` of the positions so far, and the state of each block."""

    outputs: tuple[Tensor, ...]
    carried: tuple[Past | None, ...]


class Snail(nn.Sequential):
    """Blocks over a sequence of at most `positions` vectors: `(batch, position, input_width)` -> `(batch, position,
    width)`. No output depends on later positions."""

    width: int

    @property
    def _blocks(self) -> list[Any]:
        return list(self)

    def forward(self, states: Inputs, lengths: Lengths | None = None) -> States:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Positions past `lengths (batch,)` have no influence on earlier ones, NaN included."""
        if lengths is not None:
            states = states.masked_fill(
                ~padding(lengths, states.shape[1]).readable()[..., None], 0.0
            )
        return super().forward(states)

    def start(self, batch: int) -> SnailState:
        """The state before the first step of `batch` sequences."""
        return SnailState((), tuple(block.start(batch) for block in self._blocks))

    def step(
        self, states: StepInputs, state: SnailState
    ) -> tuple[StepOutputs, SnailState]:
        """One more position `(batch, input_width)` of each sequence -> its output `(batch, width)`, and the new state.
        Stepping gives the same outputs as one pass over all positions."""
        carried = []
        for block, before in zip(self._blocks, state.carried, strict=True):
            states, after = block.step(states, state.outputs, before)
            carried.append(after)
        return states, SnailState((*state.outputs, states), tuple(carried))


def classifying(input_width: int, positions: int, filters: int = 128) -> Snail:
    """The paper's network for few-shot classification: attention with keys of 64 and values of 32 numbers, temporal
    convolutions, attention of 256 and 128, temporal convolutions, attention of 512 and 256."""
    first = AttentionBlock(input_width, 64, 32)
    second = TemporalConvolution(first.width, positions, filters)
    third = AttentionBlock(second.width, 256, 128)
    fourth = TemporalConvolution(third.width, positions, filters)
    last = AttentionBlock(fourth.width, 512, 256)
    return stacked(first, second, third, fourth, last)


def acting(input_width: int, positions: int, filters: int = 32) -> Snail:
    """The paper's network for bandits and tabular decision processes: two temporal convolutions, then attention with
    keys and values of 32 numbers."""
    first = TemporalConvolution(input_width, positions, filters)
    second = TemporalConvolution(first.width, positions, filters)
    return stacked(first, second, AttentionBlock(second.width, 32, 32))


def stacked(*blocks: AttentionBlock | TemporalConvolution) -> Snail:
    """Join blocks, each built for the output width of the one before."""
    found = Snail(*blocks)
    found.width = blocks[-1].width
    return found
