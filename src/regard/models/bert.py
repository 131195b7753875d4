"""BERT: Devlin et al. 2019, "BERT: pre-training of deep bidirectional Transformers for language understanding"."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.attention.masks import padding
from regard.attention.positions import RelativePositions
from regard.models.attention import (
    ACTIVATIONS,
    POSITIONS,
    RELATIVE_POSITIONS,
    ActivationName,
    ContentScoreName,
    PositionsName,
    RelativeName,
    SelfAlignChoice,
    build_heads,
    build_relative_positions,
)
from regard.models.classifier import Classifier
from regard.models.sizes import NamedSizes, Share, Size, check_heads
from regard.nn.embeddings import TokenEmbedding
from regard.nn.layers import Dropout, FeedForward, PostNorm
from regard.nn.output import Output
from regard.nn.transformer import EncoderLayer, run_layers
from regard.shapes import Float, Lengths, States, Tokens

DEVIATION = 0.02
PooledName = Literal["tanh", "relu", "gelu"]
POOLED: Mapping[PooledName, Callable[[], nn.Module]] = {
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
    "gelu": nn.GELU,
}


@dataclass(frozen=True)
class BertConfig:
    """Sizes; `named_sizes` has those of the paper by its names.

    A row has at most `context` tokens. `segments` is the number of segment embeddings, 0 for models without them.
    `epsilon` is added to the variance in norms. Heads on the encoder: `predictions` of the token at a position, a
    `pooler`, and on it `next_sentence`. `score`, `align` and relative `positions` are those of all heads, `window` that
    of a local alignment. `attention_dropout` is that of the weights, 0.1 in the paper. `activation` is that of the
    layers and of `predictions`, `pooled` that of the pooler; DistilBERT's classifiers have relu there, ELECTRA's gelu.
    `relative` positions stand beside `positions` and are one module for all layers (MPNet, Song 2020, 2004.09297).
    `embedding` is the width of the embeddings if a linear map leads from them to `width`, and `discriminator` a head
    that detects replaced tokens (ELECTRA, Clark 2020, 2003.10555).
    """

    named_sizes: ClassVar[NamedSizes] = {
        "base": {
            "layers": 12,
            "width": 768,
            "heads": 12,
            "hidden": 3072,
            "context": 512,
        },
        "large": {
            "layers": 24,
            "width": 1024,
            "heads": 16,
            "hidden": 4096,
            "context": 512,
        },
    }

    name: Literal["bert"] = "bert"
    layers: Size = 4
    width: Size = 256
    heads: Size = 4
    hidden: Size = 1024
    context: Size = 128
    segments: Annotated[int, Field(ge=0)] = 2
    dropout: Share = 0.1
    attention_dropout: Share = 0.0
    epsilon: Annotated[float, Field(gt=0, lt=1)] = 1e-12
    predictions: bool = True
    pooler: bool = True
    next_sentence: bool = True
    score: ContentScoreName = "scaled-dot"
    align: SelfAlignChoice = "softmax"
    window: Size = 10
    positions: PositionsName = "learned"
    activation: ActivationName = "gelu"
    pooled: PooledName = "tanh"
    relative: RelativeName | None = None
    embedding: Size | None = None
    discriminator: bool = False

    def __post_init__(self) -> None:
        if self.relative is not None and self.positions in RELATIVE_POSITIONS:
            raise ValueError(
                f"positions {self.positions} and relative {self.relative} are both relative; choose one"
            )
        if self.next_sentence and not self.pooler:
            raise ValueError(
                "next_sentence is predicted from the pooler's output; set pooler, or next_sentence to false"
            )
        check_heads(self.width, self.heads)


class BertEncoder(nn.Module):
    """Bidirectional self-attention layers over tokens with position and segment embeddings.

    Weights start normal with deviation 0.02.
    """

    def __init__(self, vocabulary: int, config: BertConfig):
        super().__init__()
        self.context = config.context
        width = config.embedding or config.width
        self.embedding = TokenEmbedding(vocabulary, width, scale=1.0)
        self.positions = POSITIONS[config.positions](width, config.context)
        self.segments = (
            nn.Embedding(config.segments, width) if config.segments else None
        )
        self.norm = nn.LayerNorm(width, config.epsilon)
        self.dropout = Dropout(config.dropout)
        self.projection = (
            nn.Identity()
            if config.embedding is None
            else nn.Linear(width, config.width)
        )
        shared = build_relative_positions(
            config.relative, config.heads, config.width // config.heads
        )
        self.layers = nn.ModuleList(layer(config, shared) for _ in range(config.layers))
        start(self)

    def forward(
        self, tokens: Tokens, lengths: Lengths, segments: Tokens | None = None
    ) -> States:
        """Return the states `(batch, position, width)` of tokens `(batch, position)`.

        [CLS] is first, and segments are 0 by default.

        Segments beyond the model's last count as the last.

        Raises:
            ValueError: More tokens than `context`.
        """
        return deque(
            self.run_layers(tokens, lengths, segments), maxlen=1
        ).pop()  # frees the states of earlier layers

    def run_layers(
        self, tokens: Tokens, lengths: Lengths, segments: Tokens | None = None
    ) -> Iterator[States]:
        """Yield the embedded input and the output of each layer.

        Arguments as for `forward`.
        """
        states = self.positions(self.embedding(tokens))
        if self.segments is not None:
            last = self.segments.num_embeddings - 1
            states = states + self.segments(
                torch.zeros_like(tokens)
                if segments is None
                else segments.clamp(max=last)
            )
        states = self.projection(self.dropout(self.norm(states)))
        yield states
        yield from run_layers(self.layers, states, lengths)


def layer(config: BertConfig, shared: RelativePositions | None = None) -> EncoderLayer:
    """Return one layer, with a norm behind each of its two residuals.

    All layers share relative positions.
    """
    heads = build_heads(
        config,
        config.align,
        config.context,
        positions=config.positions,
        dropout=config.attention_dropout,
    )
    if shared is not None:
        heads.positions = shared
    return EncoderLayer(
        heads,
        FeedForward(config.width, config.hidden, ACTIVATIONS[config.activation]()),
        (
            PostNorm(config.width, config.dropout, config.epsilon),
            PostNorm(config.width, config.dropout, config.epsilon),
        ),
    )


def start(module: nn.Module) -> None:
    """Initialise the matrices of a module."""
    for parameter in module.parameters():
        if parameter.ndim > 1:
            nn.init.normal_(parameter, std=DEVIATION)


class Pooler(nn.Sequential):
    """tanh, or `pooled`, of a linear map of the first state.

    `(batch, position, width)` -> `(batch, width)`.
    """

    def __init__(self, width: int, pooled: PooledName = "tanh"):
        super().__init__(nn.Linear(width, width), POOLED[pooled]())
        start(self)

    def forward(self, states: States) -> Float[Tensor, "batch width"]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().forward(states[:, 0])


class Predictions(nn.Module):
    """Predict the token at a position.

    States `(*batch, width)` -> logits `(*batch, vocabulary)`, through a layer of its
    own and the embedding's weights.
    """

    def __init__(
        self,
        width: int,
        embedding: TokenEmbedding,
        epsilon: float,
        activation: ActivationName = "gelu",
    ):
        super().__init__()
        self.activation = ACTIVATIONS[activation]()
        self.transform = nn.Linear(width, embedding.width)
        self.norm = nn.LayerNorm(embedding.width, epsilon)
        self.output = Output(embedding.width, embedding.vocabulary, embedding)
        start(self.transform)

    def features(self, states: Tensor) -> Tensor:
        """Return the input of the output layer."""
        return self.norm(self.activation(self.transform(states)))

    def forward(self, states: Tensor) -> Tensor:
        return self.output(self.features(states))


class Discriminator(nn.Module):
    """Whether each token was replaced (Clark 2020, 2003.10555, section 2).

    States `(*batch, width)` -> logits `(*batch)`.
    """

    def __init__(self, width: int, activation: ActivationName):
        super().__init__()
        self.dense, self.activation, self.output = (
            nn.Linear(width, width),
            ACTIVATIONS[activation](),
            nn.Linear(width, 1),
        )
        start(self)

    def forward(self, states: Tensor) -> Tensor:
        return self.output(self.activation(self.dense(states))).squeeze(-1)


class Bert(nn.Module):
    """The encoder and its heads.

    A head that the configuration lacks is None.
    """

    self_attention = "encoder.layers.*.self_attention"

    def __init__(self, vocabulary: int, config: BertConfig):
        super().__init__()
        self.encoder = BertEncoder(vocabulary, config)
        self.pooler = Pooler(config.width, config.pooled) if config.pooler else None
        arguments = (
            config.width,
            self.encoder.embedding,
            config.epsilon,
            config.activation,
        )
        self.predictions = Predictions(*arguments) if config.predictions else None
        self.discriminator = (
            Discriminator(config.width, config.activation)
            if config.discriminator
            else None
        )
        self.next_sentence = (
            nn.Linear(config.width, 2) if config.next_sentence else None
        )
        if self.next_sentence is not None:
            start(self.next_sentence)

    def forward(
        self,
        tokens: Tokens,
        lengths: Lengths,
        segments: Tokens | None = None,
    ) -> States:
        """Return the encoder's states `(batch, position, width)`."""
        return self.encoder(tokens, lengths, segments)


class BertClassifier(Classifier):
    """The encoder, the pooler of its first state and a linear layer."""

    config_class = BertConfig
    form = "marked-texts"

    self_attention = "encoder.layers.*.self_attention"

    def __init__(self, vocabulary: int, classes: int, config: BertConfig):
        super().__init__()
        self.encoder = BertEncoder(vocabulary, config)
        self.pooler = Pooler(config.width, config.pooled)
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(config.width, classes)
        start(self.output)

    def forward(
        self,
        tokens: Tokens,
        lengths: Lengths,
        segments: Tokens | None = None,
    ) -> Float[Tensor, "batch class"]:
        """Logits `(batch, class)`."""
        return self.output(
            self.dropout(self.pooler(self.encoder(tokens, lengths, segments)))
        )


class BertSpans(nn.Module):
    """Extractive question answering.

    The encoder, and the dot products of its states with two vectors, which score each
    position as the start and as the end of the answer.
    """

    config_class, form = BertConfig, "one-row"
    self_attention = "encoder.layers.*.self_attention"

    def __init__(self, vocabulary: int, config: BertConfig):
        super().__init__()
        self.encoder = BertEncoder(vocabulary, config)
        self.output = nn.Linear(config.width, 2)
        start(self.output)

    def forward(
        self,
        tokens: Tokens,
        lengths: Lengths,
        segments: Tokens | None = None,
    ) -> Float[Tensor, "batch position 2"]:
        """Logits `(batch, position, 2)` of the answer's start and end, minus infinity past each length."""
        logits = self.output(self.encoder(tokens, lengths, segments))
        return logits.masked_fill(
            ~padding(lengths, tokens.shape[1]).readable()[..., None], -torch.inf
        )


class BertTagger(nn.Module):
    """A tag for each token.

    The encoder and a linear layer over its states (Devlin 2019, section 5.3).
    """

    config_class = BertConfig

    self_attention = "encoder.layers.*.self_attention"

    def __init__(self, vocabulary: int, tags: int, config: BertConfig):
        super().__init__()
        self.encoder = BertEncoder(vocabulary, config)
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(config.width, tags)
        start(self.output)

    def forward(
        self, tokens: Tokens, lengths: Lengths
    ) -> Float[Tensor, "batch position tag"]:
        """Logits `(batch, position, tag)`."""
        return self.output(self.dropout(self.encoder(tokens, lengths)))
