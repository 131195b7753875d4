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
from regard.attention.memory import KVCache, Memory
from regard.attention.scores import ScaledDot
from regard.models.sizes import Size
from regard.nn.decoders import State
from regard.shapes import (
    Float,
    Images,
    ImageSets,
    Inputs,
    Int,
    Lengths,
    States,
    StepInputs,
    Vectors,
    to_float32,
)

StepOutputs = Vectors
"""One position of a block's input and output."""
Codes = Float[Tensor, "batch image code"]
Labels = Int[Tensor, "batch support"]
QueryLogits = Float[Tensor, "batch query way"]


class DenseBlock(nn.Module):
    """[x_t; tanh(f) * sigmoid(g)], where [f; g] = W [x_{t-d}; x_t] + b.

    A causal convolution of kernel 2 and dilation d, with zeros before the beginning.
    """

    def __init__(self, input_width: int, filters: int, dilation: int):
        super().__init__()
        self.both = nn.Linear(2 * input_width, 2 * filters)
        self.dilation = dilation
        self.width = input_width + filters

    def forward(self, states: Inputs) -> States:
        before = functional.pad(states, (0, 0, self.dilation, 0))
        return self.join(before[:, : states.shape[1]], states)

    def step(self, states: StepInputs, past: Sequence[Tensor]) -> StepOutputs:
        """Read one more position.

        `past` holds the earlier positions, each of which begins with the same features.
        """
        before = torch.zeros_like(states)
        if len(past) >= self.dilation:
            before = past[-self.dilation][:, : states.shape[1]]
        return self.join(before, states)

    def join(self, before: Tensor, states: Tensor) -> Tensor:
        """Return the output at positions, from them and the ones d before."""
        signal, gate = self.both(torch.cat([before, states], -1)).chunk(2, -1)
        return torch.cat([states, signal.tanh() * gate.sigmoid()], -1)


class TemporalConvolution(nn.Sequential):
    """Dense blocks of dilations 1, 2, 4, ... that together reach over all `positions`.

    The paper's listing counts the exponents from 1. All dilations would then be even,
    and no block would see the previous position. Here they count from 0; their number
    is the paper's, the base-2 logarithm of `positions`, rounded up.
    """

    def __init__(self, input_width: int, positions: int, filters: int):
        count = max(1, (positions - 1).bit_length())
        super().__init__()
        self.width = input_width
        for place in range(count):
            self.append(DenseBlock(self.width, filters, 2**place))
            self.width += filters

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


Plan = Sequence[tuple[int, int] | None]
"""The key and value width of each block of attention; None for temporal convolutions."""
CLASSIFYING: Plan = ((64, 32), None, (256, 128), None, (512, 256))
"""The paper's network for few-shot classification."""
ACTING: Plan = (None, None, (32, 32))
"""The paper's network for bandits."""


class Snail(nn.Sequential):
    """Blocks over a sequence of at most `positions` vectors.

    They map `(batch, position, input_width)` to `(batch, position, width)`. No output
    depends on later positions.
    """

    def __init__(self, plan: Plan, input_width: int, positions: int, filters: int):
        super().__init__()
        self.width = input_width
        for sizes in plan:
            if sizes is None:
                block = TemporalConvolution(self.width, positions, filters)
            else:
                block = AttentionBlock(self.width, *sizes)
            self.append(block)
            self.width = block.width

    def forward(self, states: Inputs, lengths: Lengths | None = None) -> States:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Positions past `lengths (batch,)` have no influence on earlier ones, NaN included."""
        if lengths is not None:
            real = padding(lengths, states.shape[1]).readable()
            states = states.masked_fill(~real[..., None], 0.0)
        return super().forward(states)

    def start(self, batch: int) -> SnailState:
        """Return the state before the first step of `batch` sequences."""
        blocks: Any = self
        return SnailState((), tuple(block.start(batch) for block in blocks))

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
        blocks: Any = self
        for block, before in zip(blocks, state.carried, strict=True):
            states, after = block.step(states, state.outputs, before)
            carried.append(after)
        return states, SnailState((*state.outputs, states), tuple(carried))


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
    """Four blocks of 3 x 3 convolution, batch normalisation, ReLU and 2 x 2 max pooling, then a linear map."""

    def __init__(self, config: SnailConfig):
        super().__init__()
        channels = config.channels
        filters = config.code_filters
        self.stages = nn.Sequential()
        for _ in range(STAGES):
            # no bias, which the normalisation would remove; ReLU follows the pooling,
            # with the same result on a quarter of the elements
            convolution = nn.Conv2d(
                channels,
                filters,
                3,
                padding=1,
                bias=False,
            )
            norm = nn.BatchNorm2d(filters)
            stage = convolution, norm, nn.MaxPool2d(2), nn.ReLU()
            self.stages.append(nn.Sequential(*stage))
            channels = filters
        self.output = nn.Linear(filters * (config.side >> STAGES) ** 2, config.width)

    def forward(self, pixels: Images) -> Float[Tensor, "batch code"]:
        """Map images `(batch, channel, side, side)` to `(batch, width)`."""
        cells = self.stages(pixels)
        return self.output(rearrange(cells, "b c h w -> b (c h w)"))


def prototype_logits(codes: Codes, labels: Labels, ways: int) -> QueryLogits:
    """Negative squared distances of query vectors to the class prototypes.

    Snell, Swersky, Zemel 2017 (1703.05175), equations 1 and 2. A prototype is the mean
    of a class's support vectors, which come first in `codes`. `labels` are 0 to `ways`
    - 1, and each class needs at least one vector. Distances are in float32 or wider.
    """
    support = codes[:, : labels.shape[1]]
    queries = codes[:, labels.shape[1] :]
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
        self.code = ImageCode(config)
        width = config.width + ways
        self.network = Snail(CLASSIFYING, width, ways * shots + 1, config.filters)
        self.output = nn.Linear(self.network.width, ways)

    def forward(
        self,
        images: ImageSets,
        labels: Labels,
    ) -> QueryLogits:
        """Return logits `(batch, query, way)` of the query images.

        They follow the support images in `images`.

        `labels (batch, support)` are those of the support set.
        """
        return self.classify(self.codes(images), labels)

    def codes(
        self,
        images: ImageSets,
    ) -> Codes:
        """Return the code of each image, `(batch, image, code)`."""
        codes = self.code(rearrange(images, "b t c h w -> (b t) c h w"))
        return rearrange(codes, "(b t) d -> b t d", b=len(images))

    def classify(
        self,
        codes: Codes,
        labels: Labels,
    ) -> QueryLogits:
        """Return logits as in `forward`, from the codes of all images.

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
        self.network = Snail(ACTING, config.width, steps, config.filters)
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
