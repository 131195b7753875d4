"""Few-shot classification by SNAIL: Mishra, Rohaninejad, Chen, Abbeel 2018 (1707.03141), section 5.1."""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from einops import rearrange, repeat
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from regard.models.sizes import Size
from regard.models.snail import classifying
from regard.shapes import Float, Int


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


STAGES = 4


class ImageCode(nn.Module):
    """Four times a 3 x 3 convolution, batch normalisation, ReLU and the largest of 2 x 2; then a linear map.

    Args:
        side: of the images in pixels, at least 16.
        channels: of the images.
        filters: of each convolution; 64 in the paper.
        width: of the vector.
    """

    def __init__(self, side: int, channels: int, filters: int, width: int):
        super().__init__()
        widths = [channels] + [filters] * (STAGES - 1)
        self.stages = nn.Sequential(*(stage(each, filters) for each in widths))
        self.output = nn.Linear(filters * (side >> STAGES) ** 2, width)

    def forward(self, pixels: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch code"]:
        """Images `(batch, channel, side, side)` -> `(batch, width)`."""
        return self.output(rearrange(self.stages(pixels), "b c h w -> b (c h w)"))


def stage(channels: int, filters: int) -> nn.Sequential:
    """One of the four; what a bias would add, the normalisation takes away. The largest of 2 x 2 and ReLU can be
    exchanged, and ReLU has a quarter to do after it."""
    convolution = nn.Conv2d(channels, filters, 3, padding=1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(filters), nn.MaxPool2d(2), nn.ReLU())


def prototype_logits(
    shown: Float[Tensor, "batch shown width"],
    labels: Int[Tensor, "batch shown"],
    queries: Float[Tensor, "batch query width"],
    ways: int,
) -> Float[Tensor, "batch query way"]:
    """Minus the squared distance of each of the `queries` to the mean of every class of those `shown`, of
    which each has its label, from 0 to `ways` - 1, and each class at least one (equations 1 and 2). In float32 at
    least, where the vectors are of less."""
    of_class = functional.one_hot(labels, ways).to(shown.dtype)
    means = of_class.mT @ shown / of_class.sum(1)[..., None]
    apart = means[:, None] - queries[:, :, None]
    return -apart.to(torch.promote_types(apart.dtype, torch.float32)).square().sum(-1)


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
