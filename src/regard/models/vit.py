"""The Vision Transformer.

Dosovitskiy et al. 2021 (2010.11929), as a classifier and as an image encoder.
"""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from einops import rearrange
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.models.attention import AttentionConfig, SelfAlignChoice
from regard.models.sizes import Fraction, Share, Size
from regard.nn.encoders import convolution_stage
from regard.nn.layers import (
    Dropout,
    EncoderLayer,
    FeedForward,
    LearnedGrid,
    PreNorm,
)
from regard.shapes import ClassLogits, Float, States

Pixels = Float[Tensor, "batch channel image_height image_width"]
DEVIATION = 0.02


@dataclass(frozen=True)
class VitConfig(AttentionConfig):
    """The sizes and options of `Vit`.

    Images of `image` x `image` pixels are cut into patches of `patch` x `patch` pixels, which a linear map or
    convolutions (`stem`) turn into vectors. The class is predicted from the
    state of [CLS], or with `pooling: mean` from the mean over the patches, without [CLS]. `epsilon` is added to the
    variance in norms.
    """

    name: Literal["vit"] = "vit"
    image: Size = 224
    patch: Size = 16
    channels: Literal[1, 3] = 3
    layers: Size = 6
    width: Size = 192
    heads: Size = 3
    hidden: Size = 768
    dropout: Share = 0.0
    pooling: Literal["first", "mean"] = "first"
    positions: Literal["learned"] = "learned"
    stem: Literal["linear", "convolutional"] = "linear"
    epsilon: Fraction = 1e-6
    align: SelfAlignChoice = "softmax"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.image % self.patch:
            raise ValueError(
                f"image {self.image} is not divisible by patch {self.patch}; choose {self.patch} x a whole number"
            )
        if self.stem == "convolutional" and (
            self.patch < 2 or self.patch & (self.patch - 1)
        ):
            raise ValueError(
                f"a convolutional stem halves the image until a cell is a patch, and patch is {self.patch}; choose 2, "
                "4, 8 or 16, or the linear stem"
            )

    @property
    def side(self) -> int:
        """Patches along a side."""
        return self.grid_side(self.image)

    def grid_side(self, image: int) -> int:
        """Return the patches along a side of an image of so many pixels."""
        return image // self.patch

    def encoder(self) -> "VitEncoder":
        """Return the encoder, with fresh weights."""
        return VitEncoder(self)

    @property
    def marks(self) -> int:
        """Number of tokens before the patches."""
        return 0 if self.pooling == "mean" else 1


class Patches(nn.Linear):
    """Cut an image into patches and map each linearly (equation 1)."""

    def __init__(self, patch: int, channels: int, width: int):
        super().__init__(channels * patch * patch, width)
        self.patch = patch

    def forward(self, pixels: Pixels) -> States:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the patches `(batch, patch, width)`, row by row."""
        size = self.patch
        cut = rearrange(pixels, "b c (h p) (w q) -> b (h w) (c p q)", p=size, q=size)
        return super().forward(cut)


class ConvolutionalPatches(nn.Module):
    """Convolutions that halve an image until a cell is a patch.

    A linear map of each cell follows: the stem of Xiao et al. 2021, "Early convolutions
    help transformers see better" (2106.14881), section 3.

    A norm is over the channels of a cell where theirs is over the batch, and a 1 x 1
    convolution follows each that halves.
    """

    def __init__(self, patch: int, channels: int, width: int):
        super().__init__()
        self.stages = nn.Sequential()
        for halvings in reversed(range(patch.bit_length() - 1)):
            after = max(1, width >> halvings)
            self.stages.append(convolution_stage(channels, after))
            channels = after
        self.output = nn.Linear(width, width)

    def forward(self, pixels: Pixels) -> States:
        """Return the patches `(batch, patch, width)`, row by row."""
        # norms over channels need the memory format
        grid = self.stages(pixels.contiguous(memory_format=torch.channels_last))
        return self.output(rearrange(grid, "b c h w -> b (h w) c"))


STEMS = {"linear": Patches, "convolutional": ConvolutionalPatches}


class VitEncoder(nn.Module):
    """Self-attention layers over [CLS], if there is one, and patches with positions.

    Equations 1 to 4 of the paper, with patches x_1 ... x_N:

        z = [x_CLS; E x_1; ... E x_N] + E_position
        z = z + attention(norm(z)),  z = z + mlp(norm(z))     in each layer
        y = norm(z)_CLS

    Matrices start truncated normal with deviation 0.02.
    """

    def __init__(self, config: VitConfig):
        super().__init__()
        self.config = config
        self.patches = STEMS[config.stem](config.patch, config.channels, config.width)
        self.marks = nn.Parameter(torch.zeros(config.marks, config.width))
        self.positions = LearnedGrid(config.marks, config.side, config.width)
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(layer(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width, config.epsilon)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=DEVIATION)

    def forward(self, pixels: Pixels) -> States:
        """Return the states `(batch, position, width)` of pixels, patches last.

        Raises:
            ValueError: A side that `patch` does not divide, or another number of
                channels.
        """
        batch, channels, height, width = pixels.shape
        patch = self.config.patch
        expected = self.config.channels
        if channels != expected or height % patch or width % patch:
            raise ValueError(
                f"images are (channel, height, width) {(channels, height, width)}; "
                f"expected {expected} channels and sides of whole numbers of {patch} "
                "pixels"
            )
        rows, columns = height // patch, width // patch
        marks = self.marks.expand(batch, -1, -1)
        states = torch.cat([marks, self.patches(pixels)], 1)
        states = self.dropout(self.positions(states, rows, columns))
        for layer in self.layers:
            states = layer(states, None)
        return self.norm(states)


def layer(config: VitConfig) -> EncoderLayer:
    """Return one layer, with a norm before each of its two sublayers.

    See equations 2 and 3 of the paper.
    """
    heads = config.build_heads(config.marks + config.side**2)
    return EncoderLayer(
        heads,
        FeedForward(config.width, config.hidden, nn.GELU()),
        [PreNorm(config.width, config.dropout, config.epsilon) for _ in range(2)],
    )


class Vit(nn.Module):
    """The encoder and a linear classifier, which starts with zeros.

    Without classes there is none, and the outputs are the states that it would read,
    `(batch, width)`.

    The paper has one linear layer in fine-tuning and a hidden layer before it in
    pre-training (section 3.1). Here it is one linear layer in both, so that a
    pre-trained run can continue as it is or with another `output`.
    """

    config_class = VitConfig
    self_attention = "encoder.layers.*.self_attention"

    def __init__(self, classes: int, config: VitConfig):
        super().__init__()
        self.config = config
        self.classes = classes
        self.encoder = VitEncoder(config)
        self.output = nn.Linear(config.width, classes) if classes else nn.Identity()
        for parameter in self.output.parameters():
            nn.init.zeros_(parameter)

    def forward(self, pixels: Pixels) -> ClassLogits:
        """Return logits `(batch, class)`."""
        states = self.encoder(pixels)
        pooled = states.mean(1) if self.config.pooling == "mean" else states[:, 0]
        return self.output(pooled)


class TrunkGrid(nn.Module):
    """The states of a trained network's cells are the memory, row by row.

    The network returns states `(batch, position, width)`; its `config` has the `marks`,
    the positions before the cells, and the `width`. The summary is the first state, that
    of [CLS], or the cells' mean without one. Unlike a cell of `GridEncoder`, a cell may
    have read the whole image. A `frozen` network has no gradient and is always in
    evaluation mode.
    """

    def __init__(self, vit: nn.Module, *, frozen: bool = False):
        super().__init__()
        # the name in the weights of runs, from when it was always a VitEncoder
        self.vit: Any = vit.requires_grad_(False).eval() if frozen else vit
        self.frozen = frozen
        self.memory_width = self.summary_width = self.vit.config.width

    def train(self, mode: bool = True) -> "TrunkGrid":
        """Set the mode; a frozen network stays in evaluation mode."""
        super().train(mode)
        self.vit.train(mode and not self.frozen)
        return self

    def read(self, images: Pixels) -> States:
        """Return the states of all positions of images. Raises as the network."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.frozen):
            return self.vit(images)

    def forward(self, images: Pixels | States) -> Memory:
        """Return a memory `(batch, cell, memory_width)` of images, or of their states.

        Raises:
            ValueError: As the network.
        """
        states = self.read(images) if images.ndim == 4 else images
        marks = self.vit.config.marks
        cells = states[:, marks:]
        summary = states[:, 0] if marks else cells.mean(1)
        return Memory(cells, cells, summary=summary)
