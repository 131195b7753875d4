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
from regard.shapes import Float, Int, wide


@dataclass(frozen=True)
class SnailConfig:
    """Sizes; the defaults are the paper's for Omniglot. A network of `code_filters` convolutions maps images of `side`
    x `side` pixels to vectors of `width` numbers. `filters` are those of the temporal convolutions."""

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
        side: side of the images in pixels, at least 16.
        channels: channels of the images.
        filters: filters of each convolution; 64 in the paper.
        width: width of the vector.
    """

    def __init__(self, side: int, channels: int, filters: int, width: int):
        super().__init__()
        widths = [channels] + [filters] * (STAGES - 1)
        self.stages = nn.Sequential(*(stage(each, filters) for each in widths))
        self.output = nn.Linear(filters * (side >> STAGES) ** 2, width)

    def forward(
        self, pixels: Float[Tensor, "batch channel height width"]
    ) -> Float[Tensor, "batch code"]:
        """Images `(batch, channel, side, side)` -> `(batch, width)`."""
        return self.output(rearrange(self.stages(pixels), "b c h w -> b (c h w)"))


def stage(channels: int, filters: int) -> nn.Sequential:
    """One of the four. It needs no bias, which the normalisation would remove. ReLU follows the pooling:
    the result is the same, and a quarter of the elements remain."""
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
    """Negative squared distances of the queries to the class prototypes: Snell, Swersky, Zemel 2017 (1703.05175),
    equations 1 and 2.

    A prototype is the mean of a class's support vectors. `labels` are 0 to `ways` - 1, and each class needs at least
    one vector. Distances are in float32 or wider.
    """
    of_class = functional.one_hot(labels, ways).to(support.dtype)
    means = of_class.mT @ support / of_class.sum(1)[..., None]
    apart = means[:, None] - queries[:, :, None]
    return -wide(apart).square().sum(-1)


class FewShotSnail(nn.Module):
    """Classifies query images from a support set of labelled images.

    The network's input at a position is the image's code and its one-hot label; the query comes last, with a label of
    zeros. Each query has a sequence of its own, and all share the codes of the support set. The loss is that of the
    last position.
    """

    self_attention = "network.*"

    def __init__(self, ways: int, shots: int, config: SnailConfig):
        super().__init__()
        self.ways, self.shots, self.config = ways, shots, config
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
        """Logits `(batch, query, way)` of the query images, which follow the support images in `images`. `labels
        (batch, support)` are those of the support set."""
        return self.classify(self.codes(images), labels)

    def codes(
        self, images: Float[Tensor, "batch image channel height width"]
    ) -> Float[Tensor, "batch image code"]:
        """The code of each image, `(batch, image, code)`."""
        codes = self.code(rearrange(images, "b t c h w -> (b t) c h w"))
        return rearrange(codes, "(b t) d -> b t d", b=len(images))

    def classify(
        self,
        codes: Float[Tensor, "batch image code"],
        labels: Int[Tensor, "batch support"],
    ) -> Float[Tensor, "batch query way"]:
        """Logits as in `forward`, from the codes of all images. In recorded maps each query is a row of the batch."""
        support = labels.shape[1]
        queries = codes.shape[1] - support
        labelled = torch.cat(
            [codes[:, :support], functional.one_hot(labels, self.ways).to(codes.dtype)],
            -1,
        )
        unlabelled = functional.pad(codes[:, support:], (0, self.ways))
        sequences = torch.cat(
            [repeat(labelled, "b s d -> b q s d", q=queries), unlabelled[:, :, None]], 2
        )
        states = self.network(rearrange(sequences, "b q t d -> (b q) t d"))[:, -1]
        return self.output(rearrange(states, "(b q) d -> b q d", q=queries))

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
