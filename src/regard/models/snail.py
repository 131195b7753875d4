"""The simple neural attentive learner: Mishra, Rohaninejad, Chen, Abbeel 2018 (1707.03141)."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from einops import rearrange, repeat
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from regard.attention.masks import padding
from regard.models.sizes import Size
from regard.nn.conv4 import ImageCode
from regard.nn.decoders.protocol import State
from regard.nn.kv_cache import Past
from regard.nn.prototypes import prototype_logits
from regard.nn.snail_blocks import AttentionBlock, Found, Given, TemporalConvolution
from regard.shapes import Float, Inputs, Int, Lengths, States


@dataclass(frozen=True, eq=False)
class SnailState(State):
    """What stepping carries: the outputs `(batch, width)` of the positions so far, and what each block does."""

    outputs: tuple[Tensor, ...]
    carried: tuple[Past | None, ...]


class Snail(nn.Sequential):
    """Blocks over a sequence of at most `positions` vectors. States `(batch, position, input_width)` -> `(batch,
    position, width)`, of which none knows what comes after it."""

    width: int

    @property
    def _blocks(self) -> list[Any]:
        return list(self)

    def forward(self, states: Inputs, lengths: Lengths | None = None) -> States:  # pyright: ignore[reportIncompatibleMethodOverride]
        """What stands past `lengths (batch,)` changes nothing before it, NaN included."""
        if lengths is not None:
            states = states.masked_fill(~padding(lengths, states.shape[1]).readable()[..., None], 0.0)
        return super().forward(states)

    def start(self, batch: int) -> SnailState:
        """The state before the first step of so many sequences."""
        return SnailState((), tuple(block.start(batch) for block in self._blocks))

    def step(self, states: Given, state: SnailState) -> tuple[Found, SnailState]:
        """One more position `(batch, input_width)` of each sequence -> its output `(batch, width)`, and the state after
        it. Steps and one pass over all positions give the same."""
        carried = []
        for block, before in zip(self._blocks, state.carried, strict=True):
            states, after = block.step(states, state.outputs, before)
            carried.append(after)
        return states, SnailState((*state.outputs, states), tuple(carried))


def classifying(input_width: int, positions: int, filters: int = 128) -> Snail:
    """The paper's network for few-shot classification: attention with keys and values of 64 and 32 numbers, temporal
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
    """Blocks, each made for what the one before gives."""
    found = Snail(*blocks)
    found.width = blocks[-1].width
    return found


@dataclass(frozen=True)
class SnailConfig:
    """Sizes; the defaults are the paper's for Omniglot. Images of `side` x `side` pixels become vectors of `width`
    numbers by convolutions of `code_filters`; those of the temporal convolutions are `filters`."""

    name: Literal["snail"] = "snail"
    side: Annotated[int, Field(ge=16)] = 28
    channels: Literal[1, 3] = 1
    code_filters: Size = 64
    width: Size = 64
    filters: Size = 128


class FewShotSnail(nn.Module):
    """Reads images with their labels, in any order, and tells the label of one more.

    What the network is given at a position is the image's code and its label as one of `ways`; of the last image the
    label is zeros. Its loss is that of the last position alone. Several images may be asked about: each is the last of
    a sequence of its own, and what the labelled ones are coded as is shared.
    """

    self_attention = "network.*"

    def __init__(self, ways: int, shots: int, config: SnailConfig):
        super().__init__()
        self.ways, self.shots, self.config = ways, shots, config
        self.code = ImageCode(config.side, config.channels, config.code_filters, config.width)
        self.network = classifying(config.width + ways, ways * shots + 1, config.filters)
        self.output = nn.Linear(self.network.width, ways)

    def forward(
        self,
        images: Float[Tensor, "batch image channel height width"],
        labels: Int[Tensor, "batch shown"],
    ) -> Float[Tensor, "batch question way"]:
        """Logits `(batch, question, way)` of the labels of the images behind those whose `labels (batch, shown)` are
        known."""
        return self.classify(self.codes(images), labels)

    def codes(self, images: Float[Tensor, "batch image channel height width"]) -> Float[Tensor, "batch image code"]:
        """The vector of each image `(batch, image, code)`."""
        codes = self.code(rearrange(images, "b t c h w -> (b t) c h w"))
        return rearrange(codes, "(b t) d -> b t d", b=len(images))

    def classify(
        self, codes: Float[Tensor, "batch image code"], labels: Int[Tensor, "batch shown"]
    ) -> Float[Tensor, "batch question way"]:
        """Logits as `forward`, from the codes of all images. In maps every question is a row."""
        shown = labels.shape[1]
        questions = codes.shape[1] - shown
        labelled = torch.cat([codes[:, :shown], functional.one_hot(labels, self.ways).to(codes.dtype)], -1)
        open_ = functional.pad(codes[:, shown:], (0, self.ways))
        sequences = torch.cat([repeat(labelled, "b s d -> b q s d", q=questions), open_[:, :, None]], 2)
        states = self.network(rearrange(sequences, "b q t d -> (b q) t d"))[:, -1]
        return self.output(rearrange(states, "(b q) d -> b q d", q=questions))

    def prototypes(
        self, codes: Float[Tensor, "batch image code"], labels: Int[Tensor, "batch shown"]
    ) -> Float[Tensor, "batch question way"]:
        """Logits as `forward`, those of a prototypical network on the codes of all images."""
        shown = labels.shape[1]
        return prototype_logits(codes[:, :shown], labels, codes[:, shown:], self.ways)
