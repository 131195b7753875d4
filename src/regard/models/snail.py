"""SNAIL: Mishra et al. 2018 (1707.03141), for few-shot classification and reinforcement learning."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from einops import rearrange, repeat
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from regard.attention import Attend
from regard.attention.masks import causal, padding
from regard.attention.memory import Memory
from regard.attention.scores import ScaledDot
from regard.models.sizes import Size
from regard.nn.decoders import State
from regard.nn.kv_cache import KVCache
from regard.shapes import (
    Features,
    Float,
    Images,
    Inputs,
    Int,
    Lengths,
    States,
    Vectors,
    to_float32,
)

StepInputs = Float[Tensor, "batch input_width"]
StepOutputs = Vectors
"""One position of a block's input and output."""


class CausalConvolution(nn.Linear):
    """W [x_{t-d}; x_t] + b.

    A convolution of kernel 2 and dilation d, with zeros before the beginning.
    """

    def __init__(self, input_width: int, width: int, dilation: int):
        super().__init__(2 * input_width, width)
        self.dilation = dilation

    def forward(self, states: Inputs) -> States:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Map states `(batch, position, input_width)` to `(batch, position, width)`."""
        before = functional.pad(states, (0, 0, self.dilation, 0))
        before = before[:, : states.shape[1]]
        return super().forward(torch.cat([before, states], -1))

    def step(self, states: StepInputs, past: Sequence[Tensor]) -> StepOutputs:
        """Return one more position `(batch, input_width)`.

        `past` holds the earlier positions, each of which begins with the same features.
        """
        if len(past) >= self.dilation:
            before = past[-self.dilation]
            before = before[:, : states.shape[1]]
        else:
            before = torch.zeros_like(states)
        return super().forward(torch.cat([before, states], -1))


class DenseBlock(nn.Module):
    """[x; tanh(f) * sigmoid(g)], where f and g are causal convolutions of x."""

    def __init__(self, input_width: int, filters: int, dilation: int):
        super().__init__()
        self.both = CausalConvolution(input_width, 2 * filters, dilation)
        self.width = input_width + filters

    def forward(self, states: Inputs) -> States:
        return concatenate_features(states, self.both(states))

    def step(self, states: StepInputs, past: Sequence[Tensor]) -> StepOutputs:
        """Read one more position."""
        return concatenate_features(states, self.both.step(states, past))


def concatenate_features(
    states: Features,
    parts: Float[Tensor, "*batch parts"],
) -> Float[Tensor, "*batch wider"]:
    """[x; tanh(f) * sigmoid(g)] from x and [f; g]."""
    signal, gate = parts.chunk(2, -1)
    return torch.cat([states, signal.tanh() * gate.sigmoid()], -1)


class TemporalConvolution(nn.Sequential):
    """Dense blocks of dilations 1, 2, 4, ... that together reach over all `positions`.

    The paper's listing counts the exponents from 1. All dilations would then be even,
    and no block would see the previous position. Here they count from 0; their number
    is the paper's, the base-2 logarithm of `positions`, rounded up.
    """

    def __init__(self, input_width: int, positions: int, filters: int):
        count = max(1, (positions - 1).bit_length())
        blocks = []
        for place in range(count):
            width = input_width + place * filters
            blocks.append(DenseBlock(width, filters, 2**place))
        super().__init__(*blocks)
        self.width = input_width + count * filters

    def start(self, batch: int) -> None:
        """There is no state beside the outputs."""

    def step(
        self,
        states: StepInputs,
        past: Sequence[Tensor],
        carried: None,
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
        self.query = nn.Linear(input_width, key_width)
        self.key = nn.Linear(input_width, key_width)
        self.value = nn.Linear(input_width, value_width)
        self.attend = Attend(ScaledDot())
        self.width = input_width + value_width

    def forward(self, states: Inputs) -> States:
        count = states.shape[1]
        mask = causal(count, count, device=states.device)
        memory = Memory(self.key(states), self.value(states), mask, zero_masked=False)
        query = self.query(states)
        read = self.attend.read(query, self.attend.prepare(memory))
        return torch.cat([states, read.context], -1)

    def start(self, batch: int) -> KVCache:
        """Return a KV cache of no positions."""
        weight = self.key.weight
        key = weight.new_zeros(batch, 0, self.key.out_features)
        value = weight.new_zeros(batch, 0, self.value.out_features)
        return KVCache.of(key, value)

    def step(
        self,
        states: StepInputs,
        past: Sequence[Tensor],
        carried: KVCache,
    ) -> tuple[StepOutputs, KVCache]:
        """Read one more position; `carried` is the KV cache of earlier ones."""
        query = self.query(states)[:, None]
        key = self.key(states)[:, None]
        value = self.value(states)[:, None]
        new = self.attend.prepare(Memory(key, value))
        grown = carried.append(new.key, new.value)
        read = self.attend.read(query, grown.memory())
        return torch.cat([states, read.context[:, 0]], -1), grown


@dataclass(frozen=True, eq=False)
class SnailState(State):
    """The state between steps.

    The outputs `(batch, width)` of the positions so far, and the state of each block.
    """

    outputs: tuple[Tensor, ...]
    carried: tuple[KVCache | None, ...]


class Snail(nn.Sequential):
    """Blocks over a sequence of at most `positions` vectors.

    `(batch, position, input_width)` -> `(batch, position, width)`. No output depends on
    later positions.
    """

    width: int

    @property
    def _blocks(self) -> list[Any]:
        return list(self)

    def forward(self, states: Inputs, lengths: Lengths | None = None) -> States:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Positions past `lengths (batch,)` have no influence on earlier ones, NaN included."""
        if lengths is not None:
            real = padding(lengths, states.shape[1]).readable()
            states = states.masked_fill(~real[..., None], 0.0)
        return super().forward(states)

    def start(self, batch: int) -> SnailState:
        """Return the state before the first step of `batch` sequences."""
        carried = [block.start(batch) for block in self._blocks]
        return SnailState((), tuple(carried))

    def step(
        self,
        states: StepInputs,
        state: SnailState,
    ) -> tuple[StepOutputs, SnailState]:
        """Read one more position `(batch, input_width)` of each sequence.

        The result is its output `(batch, width)`, and the new state.

        Stepping gives the same outputs as one pass over all positions.
        """
        carried = []
        for block, before in zip(self._blocks, state.carried, strict=True):
            states, after = block.step(states, state.outputs, before)
            carried.append(after)
        return states, SnailState((*state.outputs, states), tuple(carried))


def classifying(input_width: int, positions: int, filters: int = 128) -> Snail:
    """Return the paper's network for few-shot classification.

    Attention with keys of 64 and values of 32 numbers, temporal convolutions, attention
    of 256 and 128, temporal convolutions, attention of 512 and 256.
    """
    first = AttentionBlock(input_width, 64, 32)
    second = TemporalConvolution(first.width, positions, filters)
    third = AttentionBlock(second.width, 256, 128)
    fourth = TemporalConvolution(third.width, positions, filters)
    last = AttentionBlock(fourth.width, 512, 256)
    return stack_blocks(first, second, third, fourth, last)


def acting(input_width: int, positions: int, filters: int = 32) -> Snail:
    """Return the paper's network for bandits and tabular decision processes.

    Two temporal convolutions, then attention with keys and values of 32 numbers.
    """
    first = TemporalConvolution(input_width, positions, filters)
    second = TemporalConvolution(first.width, positions, filters)
    return stack_blocks(first, second, AttentionBlock(second.width, 32, 32))


def stack_blocks(*blocks: AttentionBlock | TemporalConvolution) -> Snail:
    """Join blocks, each built for the output width of the one before."""
    snail = Snail(*blocks)
    snail.width = blocks[-1].width
    return snail


@dataclass(frozen=True)
class SnailConfig:
    """Sizes; the defaults are the paper's for Omniglot.

    A network of `code_filters` convolutions maps images of `side` x `side` pixels to
    vectors of `width` numbers. `filters` are those of the temporal convolutions.
    """

    name: Literal["snail"] = "snail"
    side: Annotated[int, Field(ge=16)] = 28
    channels: Literal[1, 3] = 1
    code_filters: Size = 64
    width: Size = 64
    filters: Size = 128


STAGES = 4


class ImageCode(nn.Module):
    """Four blocks of 3 x 3 convolution, batch normalisation, ReLU and 2 x 2 max pooling, then a linear map.

    Args:
        side: Side of the images in pixels, at least 16.
        channels: Channels of the images.
        filters: Filters of each convolution; 64 in the paper.
        width: Width of the vector.
    """

    def __init__(self, side: int, channels: int, filters: int, width: int):
        super().__init__()
        widths = [channels] + [filters] * (STAGES - 1)
        self.stages = nn.Sequential(*(stage(size, filters) for size in widths))
        self.output = nn.Linear(filters * (side >> STAGES) ** 2, width)

    def forward(self, pixels: Images) -> Float[Tensor, "batch code"]:
        """Map images `(batch, channel, side, side)` to `(batch, width)`."""
        cells = self.stages(pixels)
        return self.output(rearrange(cells, "b c h w -> b (c h w)"))


def stage(channels: int, filters: int) -> nn.Sequential:
    """Return one of the four.

    It needs no bias, which the normalisation would remove. ReLU follows the pooling:
    the result is the same, and a quarter of the elements remain.
    """
    convolution = nn.Conv2d(channels, filters, 3, padding=1, bias=False)
    return nn.Sequential(
        convolution, nn.BatchNorm2d(filters), nn.MaxPool2d(2), nn.ReLU()
    )


def prototype_logits(
    support: Float[Tensor, "batch support width"],
    labels: Int[Tensor, "batch support"],
    queries: Float[Tensor, "batch query width"],
    ways: int,
) -> Float[Tensor, "batch query way"]:
    """Negative squared distances of the queries to the class prototypes.

    Snell, Swersky, Zemel 2017 (1703.05175), equations 1 and 2.

    A prototype is the mean of a class's support vectors. `labels` are 0 to `ways` - 1,
    and each class needs at least one vector. Distances are in float32 or wider.
    """
    of_class = functional.one_hot(labels, ways).to(support.dtype)
    counts = of_class.sum(1)
    means = of_class.mT @ support / counts[..., None]
    apart = means[:, None] - queries[:, :, None]
    return -to_float32(apart).square().sum(-1)


class FewShotSnail(nn.Module):
    """Classifies query images from a support set of labelled images.

    The network's input at a position is the image's code and its one-hot label; the
    query comes last, with a label of zeros. Each query has a sequence of its own, and
    all share the codes of the support set. The loss is that of the last position.
    """

    self_attention = "network.*"

    def __init__(self, ways: int, shots: int, config: SnailConfig):
        super().__init__()
        self.ways = ways
        self.shots = shots
        self.config = config
        self.code = ImageCode(
            config.side, config.channels, config.code_filters, config.width
        )
        self.network = classifying(
            config.width + ways, ways * shots + 1, config.filters
        )
        self.output = nn.Linear(self.network.width, ways)

    def forward(
        self,
        images: Float[Tensor, "batch image channel height width"],
        labels: Int[Tensor, "batch support"],
    ) -> Float[Tensor, "batch query way"]:
        """Logits `(batch, query, way)` of the query images, which follow the support images in `images`.

        `labels (batch, support)` are those of the support set.
        """
        return self.classify(self.codes(images), labels)

    def codes(
        self,
        images: Float[Tensor, "batch image channel height width"],
    ) -> Float[Tensor, "batch image code"]:
        """Return the code of each image, `(batch, image, code)`."""
        codes = self.code(rearrange(images, "b t c h w -> (b t) c h w"))
        return rearrange(codes, "(b t) d -> b t d", b=len(images))

    def classify(
        self,
        codes: Float[Tensor, "batch image code"],
        labels: Int[Tensor, "batch support"],
    ) -> Float[Tensor, "batch query way"]:
        """Logits as in `forward`, from the codes of all images.

        In recorded maps each query is a row of the batch.
        """
        support = labels.shape[1]
        queries = codes.shape[1] - support
        of_class = functional.one_hot(labels, self.ways).to(codes.dtype)
        labelled = torch.cat([codes[:, :support], of_class], -1)
        labelled = repeat(labelled, "b s d -> b q s d", q=queries)
        unlabelled = functional.pad(codes[:, support:], (0, self.ways))
        sequences = torch.cat([labelled, unlabelled[:, :, None]], 2)
        sequences = rearrange(sequences, "b q t d -> (b q) t d")
        last = self.network(sequences)[:, -1]
        return self.output(rearrange(last, "(b q) d -> b q d", q=queries))

    def prototypes(
        self,
        codes: Float[Tensor, "batch image code"],
        labels: Int[Tensor, "batch support"],
    ) -> Float[Tensor, "batch query way"]:
        """Logits as in `forward`, by a prototypical network on the codes of all images."""
        support = labels.shape[1]
        return prototype_logits(
            codes[:, :support], labels, codes[:, support:], self.ways
        )


@dataclass(frozen=True)
class ActingSnailConfig:
    """Sizes; the defaults are the paper's.

    `width` is that of the embedded observation, `filters` those of the temporal
    convolutions.
    """

    name: Literal["snail"] = "snail"
    width: Size = 32
    filters: Size = 32


class Actor(nn.Module):
    """Predict logits of the actions and a value at every step.

    The value is the expected return of the later steps.

    Args:
        input_width: Width of an observation.
        actions: Number of actions.
        steps: Largest number of steps in one environment.
    """

    self_attention = "network.*"

    def __init__(
        self,
        input_width: int,
        actions: int,
        steps: int,
        config: ActingSnailConfig,
    ):
        super().__init__()
        self.config = config
        self.embedding = nn.Linear(input_width, config.width)
        self.network = acting(config.width, steps, config.filters)
        self.policy = nn.Linear(self.network.width, actions)
        self.later = nn.Linear(self.network.width, 1)
        for parameter in (*self.policy.parameters(), *self.later.parameters()):
            nn.init.zeros_(parameter)  # all actions are equally likely at first

    def forward(
        self,
        inputs: Inputs,
    ) -> tuple[Float[Tensor, "batch step action"], Float[Tensor, "batch step"]]:
        """Process observations `(batch, step, input_width)`.

        Neither depends on later observations.

        Returns:
            Logits of the actions `(batch, step, action)` and values `(batch,
            step)`.
        """
        states = self.network(self.embedding(inputs))
        return self.policy(states), rearrange(self.later(states), "b t 1 -> b t")

    def start(self, batch: int) -> Any:
        """Return the state before the first step in `batch` environments."""
        return self.network.start(batch)

    def step(
        self,
        inputs: StepInputs,
        state: Any,
    ) -> tuple[Float[Tensor, "batch action"], Any]:
        """Compute the current observation `(batch, input_width)`.

        Returns:
            Logits of the actions, and the new state.
        """
        states, after = self.network.step(self.embedding(inputs), state)
        return self.policy(states), after
