"""BERT: Devlin et al. 2019, "BERT: pre-training of deep bidirectional Transformers for language understanding"."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeVar

import torch
from pydantic import NonNegativeInt
from torch import Tensor, nn

from regard.attention import Attend
from regard.attention.masks import padding
from regard.attention.memory import Memory
from regard.attention.scores import ScaledDot
from regard.models.attention import (
    ACTIVATIONS,
    POSITIONS,
    ActivationName,
    AttentionConfig,
    PositionsName,
    SelfAlignChoice,
)
from regard.models.classifier import Classifier
from regard.models.sizes import Fraction, Share, Size
from regard.nn.layers import (
    Dropout,
    EncoderLayer,
    FeedForward,
    Output,
    PostNorm,
    TokenEmbedding,
    run_layers,
)
from regard.nn.output import logarithm
from regard.shapes import (
    ClassLogits,
    Lengths,
    SpanLogits,
    States,
    TagLogits,
    Tokens,
    Vectors,
)

DEVIATION = 0.02


@dataclass(frozen=True)
class BertConfig(AttentionConfig):
    """Sizes of BERT.

    A row has at most `context` tokens. `segments` is the number of segment embeddings, 0 for models without them.
    `epsilon` is added to the variance in norms. Heads on the encoder: `predictions` of the token at a position, a
    `pooler`, and on it `next_sentence`. The paper has an `attention_dropout` of 0.1. `activation` is that of the
    layers and of `predictions`.
    """

    name: Literal["bert"] = "bert"
    layers: Size = 4
    hidden: Size = 1024
    context: Size = 128
    segments: NonNegativeInt = 2
    dropout: Share = 0.1
    epsilon: Fraction = 1e-12
    predictions: bool = True
    pooler: bool = True
    next_sentence: bool = True
    align: SelfAlignChoice = "softmax"
    positions: PositionsName = "learned"
    activation: ActivationName = "gelu"

    def __post_init__(self) -> None:
        if self.next_sentence and not self.pooler:
            raise ValueError(
                "next_sentence is predicted from the pooler's output; set pooler, or next_sentence to false"
            )
        super().__post_init__()


class BertEncoder(nn.Module):
    """Bidirectional self-attention layers over tokens with position and segment embeddings.

        x_i = norm(E_token(y_i) + E_segment(s_i) + E_position(i))

    Weights start normal with deviation 0.02.
    """

    def __init__(self, vocabulary: int, config: BertConfig):
        super().__init__()
        self.context = config.context
        width = config.width
        self.embedding = TokenEmbedding(vocabulary, width, scale=1.0)
        self.positions = POSITIONS[config.positions](width, config.context)
        self.segments = (
            nn.Embedding(config.segments, width) if config.segments else None
        )
        self.norm = nn.LayerNorm(width, config.epsilon)
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(layer(config) for _ in range(config.layers))
        start(self)

    def forward(
        self,
        tokens: Tokens,
        lengths: Lengths,
        segments: Tokens | None = None,
    ) -> States:
        """Return the states `(batch, position, width)` of tokens `(batch, position)`.

        [CLS] is first, and segments are 0 by default.

        Segments beyond the model's last count as the last.

        Raises:
            ValueError: More tokens than `context`.
        """
        # frees the states of earlier layers
        return deque(self.run_layers(tokens, lengths, segments), maxlen=1).pop()

    def run_layers(
        self,
        tokens: Tokens,
        lengths: Lengths,
        segments: Tokens | None = None,
    ) -> Iterator[States]:
        """Yield the embedded input and the output of each layer.

        Arguments as for `forward`.
        """
        states = self.positions(self.embedding(tokens))
        if self.segments is not None:
            segments = torch.zeros_like(tokens) if segments is None else segments
            last = self.segments.num_embeddings - 1
            states = states + self.segments(segments.clamp(max=last))
        states = self.dropout(self.norm(states))
        yield states
        yield from run_layers(self.layers, states, lengths)


def layer(config: BertConfig) -> EncoderLayer:
    """Return one layer, with a norm behind each of its two residuals."""
    heads = config.build_heads(config.context, positions=config.positions)
    return EncoderLayer(
        heads,
        FeedForward(config.width, config.hidden, ACTIVATIONS[config.activation]()),
        [PostNorm(config.width, config.dropout, config.epsilon) for _ in range(2)],
    )


M = TypeVar("M", bound=nn.Module)


def start(module: M) -> M:
    """Initialise the matrices of a module and return it."""
    for parameter in module.parameters():
        if parameter.ndim > 1:
            nn.init.normal_(parameter, std=DEVIATION)
    return module


class Pooler(nn.Sequential):
    """The tanh of a linear map of the first state.

    It maps `(batch, position, width)` to `(batch, width)`.
    """

    def __init__(self, width: int):
        super().__init__(nn.Linear(width, width), nn.Tanh())
        start(self)

    def forward(self, states: States) -> Vectors:  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().forward(states[:, 0])


class Predictions(nn.Module):
    """Predict the token at a position.

    States `(*batch, width)` -> logits `(*batch, vocabulary)`, through a layer of its
    own and the embedding's weights.
    """

    def __init__(self, config: BertConfig, embedding: TokenEmbedding):
        super().__init__()
        self.activation = ACTIVATIONS[config.activation]()
        self.transform = nn.Linear(config.width, embedding.width)
        self.norm = nn.LayerNorm(embedding.width, config.epsilon)
        self.output = Output(embedding.width, embedding.vocabulary, embedding)
        start(self.transform)

    def features(self, states: Tensor) -> Tensor:
        """Return the input of the output layer."""
        return self.norm(self.activation(self.transform(states)))

    def forward(self, states: Tensor) -> Tensor:
        return self.output(self.features(states))


class Bert(nn.Module):
    """The encoder and its heads.

        loss = -mean_{i masked} log p(y_i | text with blanks) - log p(B follows A | [CLS])

    A head that the configuration lacks is None.
    """

    self_attention = "encoder.layers.*.self_attention"
    config_class = BertConfig

    def __init__(self, vocabulary: int, config: BertConfig):
        super().__init__()
        self.encoder = BertEncoder(vocabulary, config)
        self.pooler = self.predictions = self.next_sentence = None
        if config.pooler:
            self.pooler = Pooler(config.width)
        if config.predictions:
            self.predictions = Predictions(config, self.encoder.embedding)
        if config.next_sentence:
            self.next_sentence = start(nn.Linear(config.width, 2))

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
        self.pooler = Pooler(config.width)
        self.dropout = Dropout(config.dropout)
        self.output = start(nn.Linear(config.width, classes))

    def forward(
        self,
        tokens: Tokens,
        lengths: Lengths,
        segments: Tokens | None = None,
    ) -> ClassLogits:
        """Return logits `(batch, class)`."""
        states = self.encoder(tokens, lengths, segments)
        return self.output(self.dropout(self.pooler(states)))


class BertSpans(nn.Module):
    """Extractive question answering.

    The encoder, and the dot products of its states with two vectors, which score each
    position as the start and as the end of the answer.
    """

    config_class = BertConfig
    form = "one-row"
    self_attention = "encoder.layers.*.self_attention"

    def __init__(self, vocabulary: int, config: BertConfig):
        super().__init__()
        self.encoder = BertEncoder(vocabulary, config)
        self.output = start(nn.Linear(config.width, 2))

    def forward(
        self,
        tokens: Tokens,
        lengths: Lengths,
        segments: Tokens | None = None,
    ) -> SpanLogits:
        """Return logits `(batch, position, 2)` of the answer's start and end.

        Positions past each length have minus infinity.
        """
        logits = self.output(self.encoder(tokens, lengths, segments))
        real = padding(lengths, tokens.shape[1]).readable()
        return logits.masked_fill(~real[..., None], -torch.inf)


@dataclass(frozen=True)
class BertPointerConfig(BertConfig):
    """Sizes of a `BertPointer`."""

    name: Literal["bert-pointer"] = "bert-pointer"  # pyright: ignore[reportIncompatibleVariableOverride]


class PointingHead(nn.Module):
    """One head of self-attention, whose weights are the output.

    p(word i points to word j) = softmax_j(W_q h_i . W_k h_j / sqrt(d))
    """

    def __init__(self, width: int):
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.attend = Attend(ScaledDot())

    def forward(self, states: States, lengths: Lengths) -> TagLogits:
        """Return the logarithms of the weights, `(batch, position, position)`."""
        query, key = self.query(states), self.key(states)
        real = padding(lengths, states.shape[1]).with_head_axis()
        memory = Memory(key[:, None], states[:, None], real)
        read = self.attend.read(
            query[:, None], self.attend.prepare(memory), weights=True
        )
        assert read.weights is not None
        return logarithm(read.weights[:, 0])


class BertPointer(nn.Module):
    """A tagger whose tags are places: each word points to a word, or to the start."""

    config_class = BertPointerConfig

    self_attention = "encoder.layers.*.self_attention", "output"

    def __init__(self, vocabulary: int, tags: int, config: BertPointerConfig):
        super().__init__()
        self.encoder = BertEncoder(vocabulary, config)
        self.output = start(PointingHead(config.width))

    def forward(self, tokens: Tokens, lengths: Lengths) -> TagLogits:
        """Return logits `(batch, position, position)`."""
        return self.output(self.encoder(tokens, lengths), lengths)


class BertTagger(nn.Module):
    """A tagger of tokens: BERT's encoder and a linear layer over its states.

    See Devlin 2019, section 5.3.
    """

    config_class = BertConfig

    self_attention = "encoder.layers.*.self_attention"

    def __init__(self, vocabulary: int, tags: int, config: BertConfig):
        super().__init__()
        self.encoder = BertEncoder(vocabulary, config)
        self.dropout = Dropout(config.dropout)
        self.output = start(nn.Linear(config.width, tags))

    def forward(
        self,
        tokens: Tokens,
        lengths: Lengths,
    ) -> TagLogits:
        """Return logits `(batch, position, tag)`."""
        return self.output(self.dropout(self.encoder(tokens, lengths)))
