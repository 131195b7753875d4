"""Recognising entailment.

Rocktaschel et al. 2016, "Reasoning about entailment with neural attention"
(1509.06664).
"""

from dataclasses import dataclass
from typing import Literal

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn import functional

from regard.attention import Attend
from regard.attention.memory import Memory
from regard.attention.scores import Additive, Dot
from regard.errors import InputError
from regard.models.classifier import Classifier
from regard.models.elmo import ElmoStates, make_embedding
from regard.models.sizes import Share, Size
from regard.nn.layers import Dropout
from regard.nn.recurrent import Recurrent, SequenceReader, gather_positions
from regard.shapes import (
    ClassLogits,
    Float,
    Int,
    Lengths,
    States,
    Vectors,
)
from regard.text.kinds import SPECIAL

Premise = Int[Tensor, "batch premise_position"]
Hypothesis = Int[Tensor, "batch hypothesis_position"]
ReadingName = Literal["none", "last", "word-by-word"]


@dataclass(frozen=True)
class RocktaschelConfig:
    """The sizes and options of `Rocktaschel`.

    `reading` is the attention over the premise: none (conditional encoding only), once
    with the hypothesis's last output, or with each of its words. `both_ways` also
    encodes the pair with its sides exchanged and classifies from both. The paper maps
    fixed word vectors to `width` numbers; here word vectors are learned.

    Three options learn from less data. A `dot` score compares states directly:
    a_t = softmax(Y (h_t + W_r r_{t-1})). With `shared` one bidirectional LSTM of twice
    the width encodes each text. With `compare` a word adds its comparison
    relu(W_c [h_t; c_t; h_t - c_t; h_t * c_t]) to r_t, where c_t = Y a_t^T (Chen 2017,
    equation 14), and the maximum of all r_t is classified too.
    """

    name: Literal["rocktaschel"] = "rocktaschel"
    embedding: Size | ElmoStates = 100
    width: Size = 100
    reading: ReadingName = "word-by-word"
    both_ways: bool = False
    dropout: Share = 0.2
    score: Literal["additive", "dot"] = "additive"
    shared: bool = False
    compare: bool = False

    def __post_init__(self) -> None:
        if self.reading != "word-by-word" and (self.score == "dot" or self.compare):
            raise InputError(
                f"model.score: dot and model.compare need reading: word-by-word; with "
                f"{self.reading}, set model.score=additive and model.compare=false"
            )


class ReadOnce(nn.Module):
    """M = tanh(W_y Y + W_h h_N), a = softmax(w^T M), r = Y a^T (equations 7 to 9)."""

    def __init__(self, width: int):
        super().__init__()
        self.attend = Attend(Additive(width, width, width))

    def forward(
        self,
        premise: Memory,
        words: States,
        last: Vectors,
        lengths: Lengths,
    ) -> Vectors:
        """Read the premise's outputs Y with the hypothesis's last output h_N."""
        return self.attend(last[:, None], premise)[:, 0]


class ReadByWord(nn.Module):
    """Word-by-word attention from r_0 = 0; the result is r_N (equations 11 to 13).

        M_t = tanh(W_y Y + W_h h_t + W_r r_{t-1}),  a_t = softmax(w^T M_t),  r_t = Y a_t^T + tanh(W_t r_{t-1})

    t runs over the hypothesis's words without the delimiter, as in the paper's figure;
    its text does not define this.
    """

    def __init__(self, config: RocktaschelConfig, width: int):
        super().__init__()
        self.is_dot = config.score == "dot"
        score = Dot() if self.is_dot else Additive(width + config.width, width, width)
        self.attend = Attend(score)
        self.width = config.width if config.compare else width
        self.queries = nn.Linear(self.width, width, bias=False) if self.is_dot else None
        self.carried = nn.Linear(self.width, self.width, bias=False)
        self.compared = nn.Linear(4 * width, self.width) if config.compare else None

    def forward(
        self,
        premise: Memory,
        words: States,
        last: Vectors,
        lengths: Lengths,
    ) -> Float[Tensor, "batch read"]:
        """Read Y with the outputs of the hypothesis's words, `(batch, word, width)`."""
        premise = self.attend.prepare(premise)
        read = last.new_zeros(len(last), self.width)
        highest = read
        for place, word in enumerate(words.unbind(1)):
            if self.queries is not None:
                query = word + self.queries(read)
            else:
                query = torch.cat([word, read], -1)
            context = self.attend.read(query[:, None], premise).context[:, 0]
            if self.compared is not None:
                pairs = [word, context, word - context, word * context]
                context = torch.relu(self.compared(torch.cat(pairs, -1)))
            after = context + torch.tanh(self.carried(read))
            read = torch.where((place < lengths)[:, None], after, read)
            highest = torch.maximum(highest, read)
        return read if self.compared is None else torch.cat([read, highest], -1)


class Rocktaschel(Classifier):
    """One LSTM reads the premise.

    A second one starts from the first one's last cell state and reads a delimiter and
    the hypothesis. h* = tanh(W_p r + W_x h_N) is classified (equations 1 to 6, 10 and
    14).

    Where the paper is silent: the second LSTM's output starts at zero, its delimiter is
    the start token, and without reading h* = tanh(W_x h_N). An empty premise leaves the
    cell state and the reads at zero.
    """

    config_class = RocktaschelConfig
    form = "two-texts"

    def __init__(self, vocabulary: int, classes: int, config: RocktaschelConfig):
        super().__init__()
        width = config.width
        self.embedding = make_embedding(vocabulary, config.embedding, config.dropout)
        self.reader = None
        inputs = width
        if config.shared:
            self.reader = SequenceReader("lstm", self.embedding.width, width)
            inputs = self.reader.output_width
        else:
            self.premise = Recurrent("lstm", self.embedding.width, width)
            self.hypothesis = Recurrent("lstm", self.embedding.width, width)
        self.reading = None
        if config.reading == "last":
            self.reading = ReadOnce(inputs)
            inputs *= 2
        elif config.reading == "word-by-word":
            self.reading = ReadByWord(config, inputs)
            inputs += (1 + config.compare) * self.reading.width
        self.joined = nn.Linear(inputs, width, bias=False)
        self.both_ways = config.both_ways
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(2 * width if config.both_ways else width, classes)

    def forward(
        self,
        premise: Premise,
        premise_lengths: Lengths,
        hypothesis: Hypothesis,
        hypothesis_lengths: Lengths,
    ) -> ClassLogits:
        """Return logits `(batch, class)` of tokens without a delimiter.

        With `both_ways` both representations are concatenated (section 2.4); they are
        computed in one batch, in which the rows of the second direction follow those of
        the first.
        """
        texts = [premise, hypothesis]
        lengths = [premise_lengths, hypothesis_lengths]
        if self.both_ways:
            size = max(premise.shape[1], hypothesis.shape[1])
            padded = [functional.pad(text, (0, size - text.shape[1])) for text in texts]
            texts = [torch.cat(padded), torch.cat(padded[::-1])]
            lengths = [torch.cat(lengths), torch.cat(lengths[::-1])]
        ways = self.represent(texts[0], lengths[0], texts[1], lengths[1])
        if self.both_ways:
            ways = rearrange(ways, "(w b) d -> b (w d)", w=2)
        return self.output(ways)

    def represent(
        self,
        premise: Premise,
        premise_lengths: Lengths,
        hypothesis: Hypothesis,
        lengths: Lengths,
    ) -> Vectors:
        """Return h* of each pair."""
        if self.reader is not None:
            outputs, _ = self.reader(self.embedding(premise), premise_lengths)
            words, last = self.reader(self.embedding(hypothesis), lengths)
            outputs, words = self.dropout(outputs), self.dropout(words)
        else:
            outputs, cell = self.read(premise, premise_lengths)
            state = torch.cat([torch.zeros_like(cell), cell], -1)[:, None]
            tokens = functional.pad(hypothesis, (1, 0), value=SPECIAL.start)
            states, _ = self.hypothesis(self.embedding(tokens), state)
            states = self.dropout(states)
            words = states[:, 1:]
            last = gather_positions(states, lengths[:, None])[:, 0]
        features = last
        if self.reading is not None:
            memory = Memory.of(outputs, premise_lengths)
            read = self.reading(memory, words, last, lengths)
            features = torch.cat([read, last], -1)
        joined = self.joined(features)
        return self.dropout(torch.tanh(joined))

    def read(
        self,
        premise: Premise,
        lengths: Lengths,
    ) -> tuple[States, Vectors]:
        """Return the premise's outputs Y and the last cell state.

        Both are zeros for a premise of length 0.
        """
        width = self.premise.width
        zeros = self.joined.weight.new_zeros(len(premise), *self.premise.state_shape)
        if not premise.shape[1]:
            return zeros[:, :0, :width], zeros[:, 0, width:]
        embedded = self.embedding(premise)
        outputs, state = self.premise(embedded, zeros, lengths.clamp(min=1))
        cell = state[:, 0, width:].masked_fill((lengths == 0)[:, None], 0.0)
        return self.dropout(outputs), cell
