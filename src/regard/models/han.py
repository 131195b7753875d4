"""The hierarchical attention network: Yang et al. 2016, "Hierarchical attention networks for document classification"
(NAACL 2016), and beside it attention over all words at once, without sentences.

The paper starts from word2vec of the training texts; here vectors of words are learned with the rest, from nothing, and
multiplied by the root of their width. It has no dropout: what `dropout` there is stands after the vectors of words, of
sentences and of documents, and nowhere within the GRUs."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from regard.models.classifier import Classifier
from regard.models.embedding import ElmoStates, make_embedding
from regard.models.sizes import Share, Size
from regard.nn.dropout import Dropout
from regard.nn.pooling import Summary, SummaryName, make_summary
from regard.nn.recurrent import SequenceReader, read_in_parts
from regard.shapes import Float, Inputs, Int, Lengths, Tokens

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
    words: SummaryName = "attention"
    sentences: SummaryName = "attention"
    longest_sentence: Size = 60
    dropout: Share = 0.0


@dataclass(frozen=True)
class FlatConfig:
    """Sizes; as those of `han`."""

    name: Literal["flat-attention"] = "flat-attention"
    embedding: Size | ElmoStates = 200
    width: Size = 50
    attention: Size = 100
    words: SummaryName = "attention"
    dropout: Share = 0.0


class Level(nn.Module):
    """A bidirectional GRU over a sequence, and one vector of its states (equations 4 to 7, and 8 to 10). It reads the
    rows of a batch in so many `parts`."""

    def __init__(self, input_width: int, config: HanConfig | FlatConfig, summary: SummaryName, parts: int = 1):
        super().__init__()
        self.parts = parts
        self.reader = SequenceReader("gru", input_width, config.width)
        self.width = self.reader.output_width
        self.dropout = Dropout(config.dropout)
        self.summary: Summary = make_summary(summary, self.width, config.attention)

    def forward(self, inputs: Inputs, lengths: Lengths) -> Float[Tensor, "batch width"]:
        """Inputs `(batch, position, input_width)` with each sequence's `lengths (batch,)`; zeros for an empty one."""
        states = read_in_parts(self.reader, inputs, lengths, self.parts)
        return self.dropout(self.summary(states, lengths))


class Han(Classifier):
    """Words to sentences, sentences to a document, a document to its class (equations 1 to 11)."""

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

    def __init__(self, vocabulary: int, classes: int, config: FlatConfig):
        super().__init__()
        self.embedding = make_embedding(vocabulary, config.embedding, config.dropout)
        self.words = Level(self.embedding.width, config, config.words)
        self.output = nn.Linear(self.words.width, classes)

    def forward(self, tokens: Tokens, lengths: Lengths) -> Float[Tensor, "batch class"]:
        """Logits `(batch, class)`."""
        return self.output(self.words(self.embedding(tokens), lengths))
