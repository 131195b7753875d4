"""Captioners of images.

Their base class, and those with a recurrent network, spatial attention or a
Transformer.
"""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.models.attention import (
    POSITIONS,
    AttentionConfig,
    SelfAlignChoice,
    UnboundedPositionsName,
)
from regard.models.bottleneck import BottleneckDecoder
from regard.models.published_images import TowerConfig
from regard.models.sizes import Share, Size
from regard.models.vit import TrunkGrid, VitConfig
from regard.nn.decoders import (
    EncoderDecoder,
    summary_of,
)
from regard.nn.encoders import GridEncoder, cells_of
from regard.nn.layers import FeedForward, Output, PreNorm, TokenEmbedding
from regard.nn.recurrent import Recurrent
from regard.nn.transformer import DecoderLayer, TransformerDecoder


@dataclass(frozen=True)
class Trunk:
    """A trained network of images: of a run, or a published one of transformers.

    `path` is the folder of a run with a `vit`, the folder of a published model or its
    name on the hub. Images have sides of `image` pixels, by default as in its training.
    The network is kept fixed if `frozen`, else trained further. `sizes` are its own;
    training fills them in, so that a trained run needs that folder no longer.
    """

    path: str
    image: Size | None = None
    frozen: bool = True
    sizes: VitConfig | TowerConfig | None = None

    def check_sizes(self) -> VitConfig | TowerConfig:
        """Return the sizes, which must be known.

        Raises:
            ValueError: They are not known yet.
        """
        if self.sizes is None:
            raise ValueError(
                f"the sizes of the trunk {self.path} are not known; give Trunk its sizes"
            )
        return self.sizes


@dataclass(frozen=True, kw_only=True)
class ImageEncoderConfig:
    """The part of every captioner's configuration that describes its image encoder.

    The side of its images, their channels, and the widths of its convolution stages,
    each of which halves the sides. A `trunk`, a trained network, replaces the stages;
    side and channels are then the trunk's.
    """

    image: Size = 64
    channels: Literal[1, 3] = 3
    stages: tuple[Size, ...] = (32, 64, 128)
    dropout: Share = 0.3
    trunk: Trunk | None = None

    def __post_init__(self) -> None:
        if not self.stages and self.trunk is None:
            raise ValueError("stages is empty; name the width of at least one")

    @property
    def side(self) -> int:
        """Cells along one side of the image."""
        if self.trunk is None:
            return cells_of(self.image, len(self.stages))
        return self.trunk.check_sizes().grid_side(self.image)

    def encoder(self) -> GridEncoder | TrunkGrid:
        """Return the image encoder, with fresh weights."""
        if self.trunk is None:
            return GridEncoder(self.channels, self.stages, self.side)
        network = self.trunk.check_sizes().encoder()
        return TrunkGrid(network, frozen=self.trunk.frozen)


class Captioner(EncoderDecoder):
    """An encoder-decoder whose sources are images `(batch, channel, height, width)`."""


@dataclass(frozen=True, kw_only=True)
class ShowAndTellConfig(ImageEncoderConfig):
    """The sizes and options of `ShowAndTell`.

    The paper has embedding and width 512.
    """

    name: Literal["show-and-tell"] = "show-and-tell"
    embedding: Size = 128
    width: Size = 256


class FirstInputInitialState(nn.Module):
    """The state after one step of `recurrent` from zeros on W summary.

    The source is the network's first input (Vinyals 2015, 1411.4555, equation 10).
    """

    def __init__(self, summary_width: int, input_width: int, recurrent: Recurrent):
        super().__init__()
        self.linear = nn.Linear(summary_width, input_width)
        self.recurrent = recurrent

    def forward(self, memory: Memory) -> Tensor:
        first = self.linear(summary_of(memory))[:, None]
        zeros = first.new_zeros(len(first), *self.recurrent.state_shape)
        _, state = self.recurrent(first, zeros)
        return state.flatten(1)


class ShowAndTell(Captioner):
    """The image is the first input of an LSTM, x_{-1} = W CNN(I), and is not seen again (equations 10 to 12).

        x_t = E y_t,  p(y_{t+1}) = softmax(W LSTM(x_t)),  loss = -sum_t log p(y_t)

    The paper's CNN(I) is the last layer of a trained image classifier. Here it is the
    mean of the cells that Show, Attend and Tell reads, so that both models have the
    same input; for a trunk with [CLS] it is the state of [CLS].
    """

    config_class = ShowAndTellConfig

    def __init__(self, vocabulary: int, config: ShowAndTellConfig):
        encoder = config.encoder()
        recurrent = Recurrent("lstm", config.embedding, config.width)
        decoder = BottleneckDecoder(
            TokenEmbedding(vocabulary, config.embedding, config.dropout),
            recurrent,
            FirstInputInitialState(encoder.summary_width, config.embedding, recurrent),
            Output(config.width, vocabulary),
            summary_each_step=False,
            dropout=config.dropout,
        )
        super().__init__(encoder, decoder)


@dataclass(frozen=True, kw_only=True)
class GridTransformerConfig(ImageEncoderConfig, AttentionConfig):
    """Sizes of the decoder.

    `align` is that of the reads of the image, `self_align` that of the words.
    `longest` is the most keys of a score that limits them. Relative `positions` of the words are those of their
    self-attention.
    """

    name: Literal["grid-transformer"] = "grid-transformer"
    layers: Size = 2
    width: Size = 128
    hidden: Size = 512
    align: SelfAlignChoice = "softmax"
    self_align: SelfAlignChoice = "softmax"
    longest: Size = 256
    positions: UnboundedPositionsName = "sinusoidal"

    def __post_init__(self) -> None:
        ImageEncoderConfig.__post_init__(self)
        AttentionConfig.__post_init__(self)


class GridTransformer(Captioner):
    """A captioner whose decoder layers read the words so far and then the image, both with `heads` heads.

    x = x + attention(x, words so far),  x = x + attention(x, image),  x = x + mlp(x)
    """

    config_class = GridTransformerConfig

    def __init__(self, vocabulary: int, config: GridTransformerConfig):
        width = config.width
        dropout = config.dropout
        keys = config.longest
        encoder = config.encoder()
        layers = [
            DecoderLayer(
                config.build_heads(
                    keys, align=config.self_align, positions=config.positions
                ),
                config.build_heads(keys, memory_width=encoder.memory_width),
                FeedForward(width, config.hidden, nn.ReLU()),
                [PreNorm(width, dropout) for _ in range(3)],
            )
            for _ in range(config.layers)
        ]
        embedding = TokenEmbedding(vocabulary, width)
        output = Output(width, vocabulary, tied=embedding)
        positions = POSITIONS[config.positions](width, keys)
        decoder = TransformerDecoder(
            embedding, positions, layers, nn.LayerNorm(width), output, dropout=dropout
        )
        super().__init__(encoder, decoder)
