"""Questions as windows of their contexts, for models that predict a span.

Each window begins half a window after the one before it, so that an answer of at most
half a window is whole in one of them (Devlin 2019, section 4.2). BERT reads a window as
one row, [start] question [end] part-of-the-context [end]; a span reader reads question
and part apart.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from regard.data.batches import Ids, bert_inputs, count_special, pad_rows
from regard.data.questions import Question, QuestionFiles
from regard.errors import InputError
from regard.models.catalog import SPAN_MODELS, SpanModelConfig
from regard.models.sizes import Size
from regard.models.span_reader import STEM
from regard.shapes import Shaped
from regard.tasks.base import TextBatch
from regard.tasks.fine_tuning import FineTuning
from regard.text import Tokenizer
from regard.text.words import spell

MULTIPLE = 16
"""Contexts are padded to a multiple of so many tokens: oneDNN keeps memory for each length that an LSTM has read."""
Offsets = Sequence[tuple[int, int]]
"""Half-open spans of characters."""
Rows = Sequence[Sequence[int | float]]
"""Numbers of each word."""


@dataclass(frozen=True, kw_only=True)
class Questions(QuestionFiles[Question]):
    """Questions about paragraphs; an imported run has none to train on."""

    kind: Literal["spans"] = "spans"
    unanswerable: bool = False
    """Whether to keep questions without an answer."""

    def is_used(self, question: Question) -> bool:
        """Return whether a question is an example."""
        return self.unanswerable or bool(question.answers)

    def parse_question(self, question: Question) -> Question:
        """Return a question whose answers have places.

        Raises:
            InputError: An answer is not in the context.
        """
        if question.answers and question.answers[0].start is None:
            raise InputError(
                f"{question.place}: the answer {question.answers[0].text[:40]!r} is not "
                "in the context; correct it"
            )
        return question


@dataclass(frozen=True, kw_only=True)
class ExtractiveQA(FineTuning):
    """A run file of answers that are spans of a context."""

    takes = tuple(SPAN_MODELS)

    task: Literal["extractive-qa"] = "extractive-qa"
    data: Questions
    model: SpanModelConfig | None = None
    longest_question: Size = 64
    """Questions are cut to so many tokens."""
    longest_answer: Size = 30
    """Largest number of tokens of an answer."""
    margin: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    """With `data.unanswerable`, how much better than no answer a span must be, in logits."""


def word_features(question: Sequence[str], context: Sequence[str]) -> Rows:
    """Return six numbers in [0, 1] for each word of the context.

    1 where the question has the word whatever its case, or its first four letters; 1 for
    a capital, a digit, punctuation; and its share of the context's words.
    """
    asked = {word.lower() for word in question}
    stems = {word[:STEM] for word in asked}
    counts = Counter(word.lower() for word in context)
    rows = []
    for word in context:
        small = word.lower()
        features = (
            small in asked,
            small[:STEM] in stems,
            word[:1].isupper(),
            any(map(str.isdigit, word)),
            not any(map(str.isalnum, word)),
            counts[small] / len(context),
        )
        rows.append(features)
    return rows


@lru_cache(maxsize=2**17)
def spell_word(word: str, size: int) -> list[int]:
    """Return the characters of a word (`regard.text.words`)."""
    return spell(word, size) if size else []


class Window(NamedTuple):
    """A question's tokens with those of a part of its context.

    Attributes:
        question: The tokens of the question.
        part: Those of the part.
        first: The position of the part's first token among the logits. Position 0 stands
            for no answer.
        answer: The positions of the answer's first and last token among the logits; both
            0 where the part does not have it whole.
        words: What a span reader reads of words: the features of the part's, the
            characters of the question's, and those of the part's.
        offsets: The characters of each token of the part in the context.
    """

    question: Ids
    part: Ids
    first: int
    answer: tuple[int, int]
    words: Sequence[Rows]
    offsets: Offsets = ()


@dataclass(frozen=True)
class WindowSplitter:
    """Splits questions into the windows that a run's model reads."""

    tokenizer: Tokenizer
    config: ExtractiveQA

    @property
    def one_row(self) -> bool:
        """Whether the model reads question and part in one row."""
        return SPAN_MODELS[self.config.sizes.name].form == "one-row"

    def split(self, example: Question) -> list[Window]:
        """Return all windows of a question; the answer is its first.

        Raises:
            InputError: Question, context or answer have no token, or there is no room
                for a part of the context.
        """
        special = self.tokenizer.special
        context = self.config.sizes.context
        question = self.tokenizer.encode(example.question)
        question = question[: self.config.longest_question]
        ids, offsets = encode_context(self.tokenizer, example.context)
        if not question or not ids:
            raise InputError(
                f"{example.place}: question or context has no token; give both"
            )
        room = context - count_special(special, 2) - len(question)
        if room < 2:
            raise InputError(
                f"{example.place}: {len(question)} tokens leave no room in a "
                f"model.context of {context}"
            )
        first = len(question) + special.opens + special.between if self.one_row else 1
        answer: list[int] = []
        if example.answers:
            text, start = example.answers[0].text, example.answers[0].start
            assert start is not None  # as `parse_question` found
            answer = find_tokens(offsets, start, start + len(text))
            if not answer:
                raise InputError(
                    f"{example.place}: the answer {text[:40]!r} has no token in the "
                    "context; correct it"
                )
        words = () if self.one_row else self.describe_words(example, offsets)
        windows = []
        for begin in range(0, max(1, len(ids) - room + room // 2), room // 2):
            part = slice(begin, begin + room)
            span = (0, 0)
            if answer and begin <= answer[0] and answer[-1] < begin + room:
                span = (answer[0] - begin + first, answer[-1] - begin + first)
            read: Sequence[Rows] = ()
            if words:
                features, asked, spellings = words
                read = (features[part], asked, spellings[part])
            windows.append(
                Window(
                    question,
                    ids[part],
                    first,
                    span,
                    read,
                    offsets[part],
                )
            )
        return windows

    def question_words(self, example: Question) -> tuple[str, ...]:
        """Return the text of each token of a question that is read."""
        spans = self.tokenizer.offsets(example.question)
        return cut_words(example.question, spans[: self.config.longest_question])

    def describe_words(self, example: Question, offsets: Offsets) -> Sequence[Rows]:
        """Return what a span reader reads of the words of question and context."""
        question = self.question_words(example)
        context = cut_words(example.context, offsets)
        size = self.config.sizes.characters
        spellings = [
            [spell_word(word, size) for word in t] for t in (question, context)
        ]
        return (word_features(question, context), *spellings)

    def collate(self, windows: Sequence[Window]) -> TextBatch:
        """Pad windows into a batch; its targets are the answers."""
        questions = [window.question for window in windows]
        parts = [window.part for window in windows]
        answers = torch.tensor([window.answer for window in windows])
        if self.one_row:
            pairs = list(zip(questions, parts, strict=True))
            inputs = bert_inputs(self.tokenizer.special, pairs)
            return TextBatch(inputs, answers, int(inputs[1].sum()))
        question = pad_rows(questions)
        context = pad_rows(parts, MULTIPLE)
        features, asked, spellings = zip(*(w.words for w in windows), strict=True)
        words = (
            stack_words(features, context[0].shape[1]),
            stack_words(asked, question[0].shape[1]).long(),
            stack_words(spellings, context[0].shape[1]).long(),
        )
        tokens = int(question[1].sum() + context[1].sum())
        return TextBatch((*question, *context, *words), answers, tokens)


def cut_words(text: str, spans: Offsets) -> tuple[str, ...]:
    """Return the characters of each token of a text, without spaces around."""
    return tuple(text[begin:end].strip() for begin, end in spans)


def stack_words(
    rows: Sequence[Rows], positions: int
) -> Shaped[Tensor, "batch position number"]:
    """Return the numbers of the words of each row, padded with zeros."""
    stacked = torch.zeros(len(rows), positions, len(rows[0][0]))
    for index, row in enumerate(rows):
        stacked[index, : len(row)] = torch.tensor(row)
    return stacked


@lru_cache(maxsize=8)  # questions about one paragraph follow each other
def encode_context(tokenizer: Tokenizer, context: str) -> tuple[Ids, Offsets]:
    """Return the tokens of a context and their characters."""
    return tokenizer.encode(context), tokenizer.offsets(context)


def find_tokens(offsets: Offsets, start: int, end: int) -> list[int]:
    """Return the tokens that share a character with the span."""
    tokens = enumerate(offsets)
    return [token for token, (first, stop) in tokens if first < end and stop > start]
