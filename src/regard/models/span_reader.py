"""A reader of questions.

Chen et al. 2017, "Reading Wikipedia to answer open-domain questions" (1704.00051), 3.2.

The comparison of the context with the question after the first encoder is that of Chen
et al. 2017, "Enhanced LSTM for natural language inference" (1609.06038), equations 11
to 15. Words can be read by their characters too, as in Seo et al. 2017, "Bidirectional
attention flow for machine comprehension" (1611.01603), section 2.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import NonNegativeInt
from torch import Tensor, nn

from regard.attention import Attend
from regard.attention.masks import padding
from regard.attention.memory import Memory
from regard.attention.scores import Dot
from regard.models.sizes import Share, Size
from regard.nn.decoders import Encoder
from regard.nn.encoders import CharacterEncoder
from regard.nn.layers import Dropout, TokenEmbedding
from regard.nn.recurrent import SequenceReader, gather_positions
from regard.shapes import (
    Characters,
    Float,
    Inputs,
    Int,
    Lengths,
    States,
    Tokens,
    Vectors,
)
from regard.text.words import ALPHABET

STEM = 4
FEATURES = 6
"""Numbers that describe a word of the context beside its vector."""
LETTER = 16
FILTERS = ((3, 50), (5, 50))
SPELLING = 50
"""The width of a character's vector, the convolutions over characters, and the width of the vector of a spelling."""


@dataclass(frozen=True)
class SpanReaderConfig:
    """The sizes and options of `SpanReader`.

    `width` is that of one direction of an LSTM, `layers` the number of LSTMs of each
    side. A question with a window of its context has at most `context` tokens. A word
    is read by at most `characters` bytes of its spelling, its markers included, and
    with 0 by none.
    """

    name: Literal["span-reader"] = "span-reader"
    embedding: Size = 100
    width: Size = 100
    layers: Size = 2
    context: Size = 512
    characters: NonNegativeInt = 0
    dropout: Share = 0.35

    def __post_init__(self) -> None:
        widest = max(size for size, _ in FILTERS)
        if 0 < self.characters < widest:
            raise ValueError(
                f"characters is {self.characters}, and a filter reads {widest}; raise it, or set 0 for none"
            )


class SpanReader(nn.Module):
    """Scores each token of a context as the first and as the last of the answer to a question.

        x_i = [the word's vector; CNN(its characters)]
        a_i = attend(relu(W x_i), relu(W x^q), values x^q)            the question's words aligned to word i
        p = BiLSTM([x_i; a_i; f_i]),  h = BiLSTM(x^q)
        c_i = attend(p_i, h),  m_i = relu(W_m [p_i; c_i; p_i - c_i; p_i * c_i])
        o = BiLSTM(m),  q = attend(w, h)                               a learned query reads the question
        logits_i = o_i^T W_start q,  o_i^T W_end q

    The first position stands for no answer, with logits V q; the context follows it.
    """

    config_class = SpanReaderConfig
    form = "two-sides"

    def __init__(self, vocabulary: int, config: SpanReaderConfig):
        super().__init__()
        sizes = config.width, config.layers
        double_width = 2 * config.width
        self.embedding = TokenEmbedding(vocabulary, config.embedding, config.dropout)
        self.characters = None
        embedded = config.embedding
        if config.characters:
            encoder = CharacterEncoder(
                ALPHABET, LETTER, FILTERS, nn.ReLU(), 0, SPELLING
            )
            self.characters = nn.Sequential(encoder, Dropout(config.dropout))
            embedded += SPELLING
        self.dropout = Dropout(config.dropout)
        self.alike = nn.Sequential(nn.Linear(embedded, embedded), nn.ReLU())
        self.align = Attend(Dot())
        self.compare = Attend(Dot())
        self.summarise = Attend(Dot())
        read = 2 * embedded + FEATURES
        dropout = config.dropout
        self.context = SequenceReader("lstm", read, *sizes, dropout=dropout)
        self.question = SequenceReader("lstm", embedded, *sizes, dropout=dropout)
        self.compared = nn.Sequential(
            nn.Linear(4 * double_width, double_width), nn.ReLU()
        )
        self.composed = SequenceReader("lstm", double_width, config.width)
        self.summary = nn.Parameter(torch.randn(double_width) * double_width**-0.5)
        self.output = nn.Linear(double_width, 2 * double_width, bias=False)
        self.none = nn.Linear(double_width, 2)

    def forward(
        self,
        question: Int[Tensor, "batch question_position"],
        question_lengths: Lengths,
        context: Tokens,
        lengths: Lengths,
        features: Float[Tensor, "batch position feature"],
        question_characters: Int[Tensor, "batch question_position character"],
        characters: Characters,
    ) -> Float[Tensor, "batch one_more_position 2"]:
        """Process tokens and the characters of each, padded on the right.

        Returns:
            Logits `(batch, 1 + position, 2)` of the answer's first and last token,
            minus infinity past each context's length.
        """
        words = self._read(question, question_characters)
        read = self._read(context, characters)
        inputs = words, question_lengths, read, lengths, features
        return self.compose(*inputs)[-1]

    def compose(
        self,
        words: Float[Tensor, "batch question_position input_width"],
        question_lengths: Lengths,
        read: Inputs,
        lengths: Lengths,
        features: Float[Tensor, "batch position feature"],
    ) -> tuple[
        Float[Tensor, "batch question_position width"],
        Vectors,
        States,
        Float[Tensor, "batch one_more_position 2"],
    ]:
        """Return the states h, the query q, the states o and the logits for word vectors."""
        states, _ = self.question(words, question_lengths)
        states = self.dropout(states)
        inside = padding(question_lengths, words.shape[1])
        keys = self.alike(words)
        word_memory = Memory(keys, words.to(keys), inside)
        aligned = self.align(self.alike(read), word_memory)
        inputs = torch.cat([read, aligned, features.to(read)], -1)
        readings, _ = self.context(inputs, lengths)
        memory = Memory.of(states, question_lengths)
        query = self.summary.to(states).expand(len(words), 1, -1)
        summary = self.summarise(query, memory)[:, 0]
        summary = self.dropout(summary)
        readings = self.dropout(readings)
        read = self.compare(readings, memory)
        parts = [readings, read, readings - read, readings * read]
        compared = self.dropout(self.compared(torch.cat(parts, -1)))
        composed = self.dropout(self.composed(compared, lengths)[0])
        queries = self.output(summary).unflatten(-1, (2, -1))
        logits = torch.einsum("bpd,bkd->bpk", composed, queries)
        inside = padding(lengths, composed.shape[1]).readable()
        logits = logits.masked_fill(~inside[..., None], -torch.inf)
        logits = torch.cat([self.none(summary)[:, None], logits], 1)
        return states, summary, composed, logits

    def _read(
        self,
        tokens: Tokens,
        characters: Characters,
    ) -> States:
        """Return the words' vectors, and those of their spellings."""
        words = self.embedding(tokens)
        if self.characters is None:
            return words
        return torch.cat([words, self.characters(characters)], -1)


class SpanEncoder(SpanReader, Encoder):
    """A span reader of a question and its context in one text, as the memory of a decoder.

    The question ends with the first question mark. The states of its words are h, those
    of the context's words o + p_start u + p_end v, with the probabilities that the
    answer begins and ends there. The summary is q. Beyond the parameters of
    `SpanReader` it has u and v, the rows of `edges`.
    """

    words: Tensor

    def __init__(self, vocabulary: int, config: SpanReaderConfig):
        if config.characters:
            raise ValueError(
                "an encoder of a pair ignores the letters of words; set encoder.characters to 0"
            )
        super().__init__(vocabulary, config)
        self.memory_width = self.summary_width = 2 * config.width
        self.edges = nn.Parameter(torch.randn(2, self.memory_width))
        self.describe([""] * vocabulary)

    def describe(self, words: Sequence[str]) -> None:
        """Store what the features of a context need of each word of the vocabulary.

        The number of the word whatever its case, the number of its first letters, and
        whether it has a capital, a digit, only punctuation, or is a question mark.
        """
        numbers: dict[str, int] = {}
        rows = [
            (
                numbers.setdefault(word.lower(), len(numbers)),
                numbers.setdefault(f"{word.lower()[:STEM]}-", len(numbers)),
                word[:1].isupper(),
                any(map(str.isdigit, word)),
                not any(map(str.isalnum, word)),
                word == "?",
            )
            for word in words
        ]
        self.register_buffer(
            "words",
            torch.tensor(rows).long(),
            persistent=False,
        )

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, tokens: Tokens, lengths: Lengths
    ) -> Memory:
        size = tokens.shape[1]
        # a word past the vocabulary is equal to itself only
        is_new = (tokens >= len(self.words))[..., None]
        words = self.words[tokens.clamp(max=len(self.words) - 1)]
        words = words.masked_fill(is_new, 0)
        words[..., :2] -= is_new * tokens[..., None]
        is_mark = words[..., -1] > 0
        end = is_mark.int().argmax(1) + 1 if size else lengths
        question_lengths = torch.where(
            is_mark.any(1),
            end,
            lengths,
        )
        question = tokens[:, : int(question_lengths.max())]
        context_lengths = (lengths - question_lengths - 1).clamp(min=0)  # without END
        positions = torch.arange(size, device=tokens.device)
        index = (question_lengths[:, None] + positions).clamp(max=max(0, size - 1))
        features = describe_context(
            words[:, : question.shape[1]],
            question_lengths,
            words.take_along_dim(index[..., None], 1),
            context_lengths,
        )
        states, summary, composed, logits = self.compose(
            self.embedding(question),
            question_lengths,
            self.embedding(tokens.gather(1, index)),
            context_lengths,
            features,
        )
        shares = logits[:, 1:].softmax(1).nan_to_num().to(composed)
        composed = composed + shares @ self.edges.to(composed)
        after = positions - question_lengths[:, None]
        index = torch.where(
            after < 0,
            positions,
            after + question.shape[1],
        )
        states = torch.cat([states, composed], 1)
        return Memory.of(
            gather_positions(states, index),
            lengths,
            summary,
            tokens,
        )


def describe_context(
    question: Int[Tensor, "batch question_position number"],
    question_lengths: Lengths,
    context: Int[Tensor, "batch position number"],
    lengths: Lengths,
) -> Float[Tensor, "batch position feature"]:
    """Return the numbers of `word_features` for words as `SpanEncoder.describe` has them."""
    inside = padding(question_lengths, question.shape[1]).readable()
    is_same = context[:, :, None, :2] == question[:, None, :, :2]
    is_asked = (is_same & inside[:, None, :, None]).any(2)
    inside = padding(lengths, context.shape[1]).readable()
    is_same = context[:, :, None, 0] == context[:, None, :, 0]
    counts = (is_same & inside[:, None]).sum(-1, keepdim=True)
    share = counts / lengths.clamp(min=1)[:, None, None]
    return torch.cat(
        [is_asked, context[..., 2:-1], share],
        -1,
    )


class SpanReading(nn.Module):
    """The holder of a `SpanEncoder` without a decoder."""

    config_class = SpanReaderConfig

    def __init__(
        self, source_vocabulary: int, target_vocabulary: int, config: SpanReaderConfig
    ):
        super().__init__()
        self.encoder = SpanEncoder(source_vocabulary, config)
        self.max_source = config.context
