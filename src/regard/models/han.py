"""The hierarchical attention network: Yang et al. 2016, "Hierarchical attention networks for document classification"
(NAACL 2016), and beside it attention over all words at once, without sentences.

The paper starts from word2vec of the training texts; here vectors of words are learned with the rest, from nothing, and
multiplied by the root of their width. It has no dropout: what `dropout` there is stands after the vectors of words, of
sentences and of documents, and nowhere within the GRUs."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention import Attend
from regard.attention.masks import padding
from regard.attention.memory import Memory
from regard.attention.scores import TanhDot
from regard.models.classifier import Classifier
from regard.models.elmo_embedding import ElmoStates, make_embedding
from regard.models.sizes import Share, Size
from regard.nn.encoders.transformer import mean
from regard.nn.recurrent import SequenceReader, read_in_parts
from regard.nn.sublayers import Dropout
from regard.shapes import Float, Inputs, Int, Lengths, States, Tokens

PoolingName = Literal["attention", "average", "maximum"]


PARTS = 8
"""In which the sentences of a batch are read, the shortest first."""


@dataclass(frozen=True)
class HanConfig:
    """Sizes; by default those of the paper, which has no dropout. `width` is that of one direction. `words` and
    `sentences` say how the vectors of a sentence's words and of a document's sentences become one; the paper compares
    attention with average and maximum. A sentence of more than `longest_sentence` tokens is read as several."""

    name: Literal["han"] = "han"
    embedding: Size | ElmoStates = 200
    width: Size = 50
    attention: Size = 100
    words: PoolingName = "attention"
    sentences: PoolingName = "attention"
    longest_sentence: Size = 60
    dropout: Share = 0.0


@dataclass(frozen=True)
class FlatConfig:
    """Sizes; as those of `han`."""

    name: Literal["flat-attention"] = "flat-attention"
    embedding: Size | ElmoStates = 200
    width: Size = 50
    attention: Size = 100
    words: PoolingName = "attention"
    dropout: Share = 0.0


class Pooling(nn.Module, ABC):
    """States of padded sequences to one vector each; zeros for a sequence of length 0."""

    @abstractmethod
    def forward(self, states: States, lengths: Lengths) -> Float[Tensor, "batch width"]:
        """States `(batch, position, width)` with each sequence's `lengths (batch,)`."""


class AttentionPooling(Pooling):
    """A learned query u reads the states h (equations 5 to 7 and 8 to 10):

        u_i = tanh(W h_i + b),  a = softmax(u_i . u),  s = sum a_i h_i

    The paper draws u at random and does not say how; here it is normal, its numbers of variance 1 / `hidden`.
    """

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.query = nn.Parameter(torch.randn(hidden) * hidden**-0.5)
        self.attend = Attend(TanhDot(width, hidden))

    def forward(self, states: States, lengths: Lengths) -> Float[Tensor, "batch width"]:
        query = self.query.expand(len(states), 1, -1)
        return self.attend(query, Memory.of(states, lengths))[:, 0]


class AveragePooling(Pooling):
    """The mean of the states."""

    def forward(self, states: States, lengths: Lengths) -> Float[Tensor, "batch width"]:
        memory = Memory.of(states, lengths)
        return mean(memory.value, padding(lengths, states.shape[1]), lengths)


class MaximumPooling(Pooling):
    """The maximum of each number over the positions."""

    def forward(self, states: States, lengths: Lengths) -> Float[Tensor, "batch width"]:
        outside = ~padding(lengths, states.shape[1]).readable()
        empty = (lengths == 0)[:, None]
        lowest = torch.finfo(states.dtype).min
        least = states.new_full((len(states), 1, states.shape[2]), lowest)  # so that there is something to choose from
        whole = torch.cat([states.masked_fill(outside[..., None], lowest), least], 1)
        return whole.amax(1).masked_fill(empty, 0.0)


def make_pooling(name: PoolingName, width: int, hidden: int) -> Pooling:
    """By its name, of states of a width; `hidden` is the width of the keys of attention."""
    if name == "attention":
        return AttentionPooling(width, hidden)
    return AveragePooling() if name == "average" else MaximumPooling()


class Level(nn.Module):
    """A bidirectional GRU over a sequence, and one vector of its states (equations 4 to 7, and 8 to 10). It reads the
    rows of a batch in so many `parts`."""

    def __init__(self, input_width: int, config: HanConfig | FlatConfig, summary: PoolingName, parts: int = 1):
        super().__init__()
        self.parts = parts
        self.reader = SequenceReader("gru", input_width, config.width)
        self.width = self.reader.output_width
        self.dropout = Dropout(config.dropout)
        self.summary: Pooling = make_pooling(summary, self.width, config.attention)

    def forward(self, inputs: Inputs, lengths: Lengths) -> Float[Tensor, "batch width"]:
        """Inputs `(batch, position, input_width)` with each sequence's `lengths (batch,)`; zeros for an empty one."""
        states = read_in_parts(self.reader, inputs, lengths, self.parts)
        return self.dropout(self.summary(states, lengths))


class Han(Classifier):
    """Words to sentences, sentences to a document, a document to its class (equations 1 to 11)."""

    config_class = HanConfig
    form = "document"

    def __init__(self, vocabulary: int, classes: int, config: HanConfig):
        super().__init__()
        self.embedding = make_embedding(vocabulary, config.embedding, config.dropout)
        self.words = Level(self.embedding.width, config, config.words, parts=PARTS)
        self.sentences = Level(self.words.width, config, config.sentences)
        self.output = nn.Linear(self.sentences.width, classes)

    def forward(
        self,
        tokens: Int[Tensor, "row position"],
        lengths: Int[Tensor, " row"],
        places: Int[Tensor, "batch sentence"],
        counts: Int[Tensor, " batch"],
    ) -> Float[Tensor, "batch class"]:
        """Logits `(batch, class)` of documents as a `DocumentBatch` has them: a row a sentence, and the rows that are
        each document's."""
        sentences = self.words(self.embedding(tokens), lengths)
        laid_out = sentences.index_select(0, places.flatten()).unflatten(0, places.shape)
        return self.output(self.sentences(laid_out, counts))


class FlatAttention(Classifier):
    """One level over all words of a document."""

    config_class = FlatConfig
    form = "attended-text"

    def __init__(self, vocabulary: int, classes: int, config: FlatConfig):
        super().__init__()
        self.embedding = make_embedding(vocabulary, config.embedding, config.dropout)
        self.words = Level(self.embedding.width, config, config.words)
        self.output = nn.Linear(self.words.width, classes)

    def forward(self, tokens: Tokens, lengths: Lengths) -> Float[Tensor, "batch class"]:
        """Logits `(batch, class)`."""
        return self.output(self.words(self.embedding(tokens), lengths))
