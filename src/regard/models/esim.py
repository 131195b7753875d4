"""Two texts compared word by word.

Chen et al. 2017, "Enhanced LSTM for natural language inference" (1609.06038).

One LSTM reads both texts; each word of either attends to the words of the other, and a
second LSTM composes the comparisons. The paper starts from pretrained word vectors,
which `vectors` in a run file replaces.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention import Attend
from regard.attention.memory import Memory
from regard.attention.scores import Dot
from regard.models.classifier import Classifier
from regard.models.elmo import ElmoStates, make_embedding
from regard.models.sizes import Share, Size
from regard.nn.layers import AveragePooling, Dropout, MaximumPooling
from regard.nn.recurrent import SequenceReader
from regard.shapes import (
    ClassLogits,
    Int,
    Lengths,
    States,
    Vectors,
)


@dataclass(frozen=True)
class EsimConfig:
    """The sizes and options of `Esim`.

    `width` is that of one direction of an LSTM; the paper has 300 for both sizes.
    Without `both_ways` only the words of the second text read the first, and the class
    depends on their comparisons only.
    """

    name: Literal["esim"] = "esim"
    embedding: Size | ElmoStates = 100
    width: Size = 100
    dropout: Share = 0.5
    both_ways: bool = True


class Esim(Classifier):
    """With a and b the states of the two texts (equations 1 and 2).

        a'_i = sum_j softmax_j(a_i . b_j) b_j,  b'_j = sum_i softmax_i(a_i . b_j) a_i      (11 to 13)
        m_a = [a; a'; a - a'; a * a'],  m_b likewise                                       (14 and 15)
        v = BiLSTM(relu(W m))                                                              (16 and 17)
        logits = W_2 tanh(W_1 [mean v_a; max v_a; mean v_b; max v_b])                      (18 to 20)

    A text without words has zeros for its states, contexts and pools.
    """

    config_class = EsimConfig
    form = "compared-texts"

    def __init__(self, vocabulary: int, classes: int, config: EsimConfig):
        super().__init__()
        double_width = 2 * config.width
        self.embedding = make_embedding(vocabulary, config.embedding, config.dropout)
        self.reader = SequenceReader("lstm", self.embedding.width, config.width)
        self.first_reads = Attend(Dot())
        self.second_reads = Attend(Dot())
        self.compared = nn.Sequential(
            nn.Linear(4 * double_width, config.width), nn.ReLU()
        )
        self.composed = SequenceReader("lstm", config.width, config.width)
        self.average = AveragePooling()
        self.maximum = MaximumPooling()
        self.both_ways = config.both_ways
        self.joined = nn.Sequential(
            nn.Linear((4 if config.both_ways else 2) * double_width, config.width),
            nn.Tanh(),
        )
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(config.width, classes)

    def forward(
        self,
        first: Int[Tensor, "batch first_position"],
        first_lengths: Lengths,
        second: Int[Tensor, "batch second_position"],
        second_lengths: Lengths,
    ) -> ClassLogits:
        """Return logits `(batch, class)` of two texts, padded on the right."""
        a, _ = self.reader(self.embedding(first), first_lengths)
        b, _ = self.reader(self.embedding(second), second_lengths)
        pools = []
        if self.both_ways:
            read = self.first_reads(a, Memory.of(b, second_lengths))
            pools += self._pool(a, read, first_lengths)
        read = self.second_reads(b, Memory.of(a, first_lengths))
        pools += self._pool(b, read, second_lengths)
        joined = self.joined(self.dropout(torch.cat(pools, -1)))
        return self.output(self.dropout(joined))

    def _pool(
        self,
        states: States,
        read: States,
        lengths: Lengths,
    ) -> tuple[Vectors, ...]:
        """Return the mean and the maximum of one text's composed comparisons."""
        compared = torch.cat([states, read, states - read, states * read], -1)
        composed, _ = self.composed(self.dropout(self.compared(compared)), lengths)
        return self.average(composed, lengths), self.maximum(composed, lengths)
