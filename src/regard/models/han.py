"""The hierarchical attention network.

Yang et al. 2016, "Hierarchical attention networks for document classification" (NAACL
2016); and attention over all words of a document at once, as a baseline.

The paper starts from word2vec vectors of the training texts. Here word vectors are
learned from scratch and multiplied by the root of their width. The paper has no
dropout; here `dropout` follows the vectors of words, sentences and documents, never
within the GRUs.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention import Attend
from regard.attention.memory import Memory
from regard.attention.scores import TanhDot
from regard.models.classifier import Classifier
from regard.models.elmo import ElmoStates, make_embedding
from regard.models.sizes import Share, Size
from regard.nn.layers import (
    AveragePooling,
    Dropout,
    MaximumPooling,
    Pooling,
    WordDropout,
)
from regard.nn.recurrent import SequenceReader, read_in_parts
from regard.shapes import (
    ClassLogits,
    Inputs,
    Int,
    Lengths,
    RowIds,
    States,
    Tokens,
    Vectors,
)

PoolingName = Literal["attention", "average", "maximum"]
POOLINGS = {"average": AveragePooling, "maximum": MaximumPooling}


PARTS = 8
"""Number of groups in which a batch's sentences are read, sorted by length."""


@dataclass(frozen=True)
class HanConfig:
    """Sizes; the defaults are the paper's, without dropout.

    `width` is that of one direction. `words` and `sentences` choose the pooling of
    words into a sentence and of sentences into a document; the paper compares attention
    with average and maximum. A sentence of more than `longest_sentence` tokens is
    split.
    """

    name: Literal["han"] = "han"
    embedding: Size | ElmoStates = 200
    width: Size = 50
    attention: Size = 100
    words: PoolingName = "attention"
    sentences: PoolingName = "attention"
    longest_sentence: Size = 60
    dropout: Share = 0.0
    word_dropout: Share = 0.0
    """The probability that training replaces a word by the unknown one."""


@dataclass(frozen=True)
class FlatConfig:
    """Sizes, as in `HanConfig`."""

    name: Literal["flat-attention"] = "flat-attention"
    embedding: Size | ElmoStates = 200
    width: Size = 50
    attention: Size = 100
    words: PoolingName = "attention"
    dropout: Share = 0.0


class AttentionPooling(Pooling):
    """A learned query u reads the states h (equations 5 to 7 and 8 to 10).

        u_i = tanh(W h_i + b),  a = softmax(u_i . u),  s = sum a_i h_i

    The paper initialises u at random without naming the distribution; here it is normal
    with variance 1 / `hidden`.
    """

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.query = nn.Parameter(torch.randn(hidden) * hidden**-0.5)
        self.attend = Attend(TanhDot(width, hidden))

    def forward(self, states: States, lengths: Lengths) -> Vectors:
        query = self.query.expand(states.shape[0], 1, -1)
        return self.attend(query, Memory.of(states, lengths))[:, 0]


class HanLevel(nn.Module):
    """A bidirectional GRU over a sequence, and a pooling of its states.

    See equations 4 to 7, and 8 to 10 of the paper.

    It reads the rows of a batch in `parts` groups.
    """

    def __init__(
        self,
        input_width: int,
        config: HanConfig | FlatConfig,
        summary: PoolingName,
        parts: int = 1,
    ):
        super().__init__()
        self.parts = parts
        self.reader = SequenceReader("gru", input_width, config.width)
        self.width = self.reader.output_width
        self.dropout = Dropout(config.dropout)
        self.summary: Pooling
        if summary == "attention":
            self.summary = AttentionPooling(self.width, config.attention)
        else:
            self.summary = POOLINGS[summary]()

    def forward(self, inputs: Inputs, lengths: Lengths) -> Vectors:
        """Pool inputs `(batch, position, input_width)` of `lengths (batch,)`.

        The result is `(batch, width)`, zeros for an empty sequence.
        """
        states = read_in_parts(self.reader, inputs, lengths, self.parts)
        return self.dropout(self.summary(states, lengths))


class Han(Classifier):
    """From words to sentences, from sentences to a document, from the document to its class (equations 1 to 11)."""

    config_class = HanConfig
    form = "document"

    def __init__(self, vocabulary: int, classes: int, config: HanConfig):
        super().__init__()
        self.word_dropout = WordDropout(config.word_dropout)
        self.embedding = make_embedding(vocabulary, config.embedding, config.dropout)
        self.words = HanLevel(self.embedding.width, config, config.words, parts=PARTS)
        self.sentences = HanLevel(self.words.width, config, config.sentences)
        self.output = nn.Linear(self.sentences.width, classes)

    def forward(
        self,
        tokens: Int[Tensor, "row position"],
        lengths: RowIds,
        places: Int[Tensor, "batch sentence"],
        counts: Lengths,
    ) -> ClassLogits:
        """Return logits `(batch, class)` of documents as in a `DocumentBatch`.

        One row per sentence, and the rows of each document.
        """
        words = self.embedding(self.word_dropout(tokens))
        sentences = self.words(words, lengths)
        rows = sentences.index_select(0, places.flatten())
        documents = rows.unflatten(0, places.shape)
        return self.output(self.sentences(documents, counts))


class FlatAttention(Classifier):
    """A classifier with one level over all words of a document."""

    config_class = FlatConfig
    form = "attended-text"

    def __init__(self, vocabulary: int, classes: int, config: FlatConfig):
        super().__init__()
        self.embedding = make_embedding(vocabulary, config.embedding, config.dropout)
        self.words = HanLevel(self.embedding.width, config, config.words)
        self.output = nn.Linear(self.words.width, classes)

    def forward(self, tokens: Tokens, lengths: Lengths) -> ClassLogits:
        """Return logits `(batch, class)`."""
        return self.output(self.words(self.embedding(tokens), lengths))
