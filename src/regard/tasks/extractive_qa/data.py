"""Questions as windows of their contexts, for models that predict where an answer begins and ends.

Each window begins half a window after the one before it, so that an answer of at most half a window is whole in one of
them (Devlin 2019, section 4.2). BERT reads a window as one row, [start] question [end] part-of-the-context [end]; a
span reader reads question and part apart."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from regard.data.batches import Ids, InputBatch, bert_inputs, count_special, pad_rows
from regard.data.questions import Question, QuestionFiles
from regard.errors import InputError
from regard.models.catalog import SPAN_MODELS, SpanModelConfig
from regard.models.sizes import Size
from regard.shapes import Float, Int
from regard.tasks.fine_tuning import FineTuning
from regard.text import SPECIAL, SpecialTokens, Tokenizer
from regard.text.words import spell

STEM = 4


@lru_cache(maxsize=2**17)
def _describe(word: str) -> tuple[str, str, bool, bool, bool]:
    """A word in small letters, its stem, and whether it begins with a capital, has a digit, has no letter or digit."""
    small = word.lower()
    return (
        small,
        small[:STEM],
        word[:1].isupper(),
        any(item.isdigit() for item in word),
        not any(example.isalnum() for example in word),
    )


def word_features(
    question: Sequence[str], context: Sequence[str]
) -> Float[Tensor, "position 6"]:
    """Six numbers in [0, 1] for each word of the context.

    1 where the question has the word whatever its case, or its first four letters; 1
    for a capital, a digit, punctuation; and its share of the context's words.
    """
    if not context:
        return torch.zeros(0, 6)
    small, stems, capital, digit, mark = zip(
        *(_describe(word.strip()) for word in context), strict=True
    )
    present = [_describe(word.strip()) for word in question]
    words, stemmed = {item[0] for item in present}, {example[1] for example in present}
    counts: dict[str, int] = {}
    for word in small:
        counts[word] = counts.get(word, 0) + 1
    columns = [
        [word in words for word in small],
        [stem in stemmed for stem in stems],
        capital,
        digit,
        mark,
        [counts[word] / len(small) for word in small],
    ]
    return torch.from_numpy(np.array(columns, dtype=np.float32).T.copy())


def spellings(words: Sequence[str], size: int) -> Int[Tensor, "position character"]:
    """Return the characters of each word, `size` ids a word (`regard.text.words`).

    None with a size of 0.
    """
    rows = [_spelled(word.strip(), size) for word in words] if size else []
    return torch.from_numpy(np.array(rows, dtype=np.int16).reshape(len(words), size))


@lru_cache(maxsize=2**17)
def _spelled(word: str, size: int) -> tuple[int, ...]:
    return tuple(spell(word, size))


@dataclass(frozen=True, kw_only=True)
class Questions(QuestionFiles[Question]):
    """Questions about paragraphs; a run that was imported has none to train on.

    Questions without an answer are left out, unless `unanswerable` is set.
    """

    kind: Literal["spans"] = "spans"
    unanswerable: bool = False

    def is_used(self, question: Question) -> bool:
        """Return whether a question is an example."""
        return self.unanswerable or bool(question.answers)

    def parse_question(self, question: Question) -> Question:
        """Return a question whose answers have places.

        Raises InputError without.
        """
        return _locate(question)


@dataclass(frozen=True)
class Window:
    """A question's tokens with those of a part of its context.

    It stands for the `offsets` in the context, half-open spans of characters. A span
    reader reads the `features` of the part's words, and the characters of the words of
    both, `question_spellings` and `spellings`. `first` is the position of the part's
    first token among a model's logits. `answer` are the positions of the answer's first
    and last token, both 0 where the part does not have it whole. `marks` is the number
    of special tokens in the row.
    """

    question: Ids
    part: Ids
    offsets: tuple[tuple[int, int], ...]
    features: Float[Tensor, "position 6"]
    question_spellings: Int[Tensor, "question_position character"]
    spellings: Int[Tensor, "position character"]
    first: int
    answer: tuple[int, int] = (0, 0)
    marks: int = 3

    @property
    def length(self) -> int:
        """The number of tokens, special tokens included."""
        return len(self.question) + len(self.part) + self.marks


MULTIPLE = 16
"""Contexts are padded to a multiple of so many tokens: oneDNN keeps memory for each length that an LSTM has read."""


class SpanBatch(InputBatch):
    """Windows in a batch, and where each answer begins and ends."""

    answers: Int[Tensor, "batch 2"]


@dataclass(frozen=True, repr=False)
class RowBatch(SpanBatch):
    """Windows as rows of BERT, padded on the right, and the segment of each token."""

    tokens: Int[Tensor, "batch position"]
    lengths: Int[Tensor, " batch"]
    segments: Int[Tensor, "batch position"]
    answers: Int[Tensor, "batch 2"]

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return self.tokens, self.lengths, self.segments

    @property
    def size(self) -> int:
        return int(self.lengths.sum())


@dataclass(frozen=True, repr=False)
class TwoSidesBatch(SpanBatch):
    """Questions and parts of contexts, each padded on the right, the features of the parts' words, and the characters
    of both."""

    question: Int[Tensor, "batch question_position"]
    question_lengths: Int[Tensor, " batch"]
    context: Int[Tensor, "batch position"]
    lengths: Int[Tensor, " batch"]
    features: Float[Tensor, "batch position 6"]
    question_characters: Int[Tensor, "batch question_position character"]
    characters: Int[Tensor, "batch position character"]
    answers: Int[Tensor, "batch 2"]

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        sides = self.question, self.question_lengths, self.context, self.lengths
        return *sides, self.features, self.question_characters, self.characters

    @property
    def size(self) -> int:
        return int(self.question_lengths.sum() + self.lengths.sum())


@dataclass(frozen=True)
class Form(ABC):
    """How a model reads a window, with the special ids of its vocabulary and the number of a word's characters."""

    special: SpecialTokens = SPECIAL
    characters: int = 0

    @property
    def marks(self) -> int:
        """The number of special tokens in a window."""
        return count_special(self.special, 2)

    @abstractmethod
    def first(self, question: Ids) -> int:
        """Return the position of a part's first token among the logits."""

    @abstractmethod
    def collate(self, group: Sequence[Window]) -> SpanBatch:
        """Return a batch of windows.

        Raises:
            ValueError: None.
        """


@dataclass(frozen=True)
class Row(Form):
    """[start] question [end] part [end]; position 0 stands for no answer."""

    def first(self, question: Ids) -> int:
        return len(question) + self.special.opens + self.special.between

    def collate(self, group: Sequence[Window]) -> RowBatch:
        rows = bert_inputs(self.special, [(item.question, item.part) for item in group])
        return RowBatch(*rows, _answers(group))


@dataclass(frozen=True)
class TwoSides(Form):
    """Question and part apart; position 0 stands for no answer."""

    def first(self, question: Ids) -> int:
        return 1

    def collate(self, group: Sequence[Window]) -> TwoSidesBatch:
        answers = _answers(group)
        question, question_lengths = pad_rows([item.question for item in group])
        context, lengths = pad_rows([example.part for example in group], MULTIPLE)
        return TwoSidesBatch(
            question,
            question_lengths,
            context,
            lengths,
            _stack([entry.features for entry in group], context.shape[1]),
            _stack(
                [value.question_spellings for value in group], question.shape[1]
            ).long(),
            _stack([each.spellings for each in group], context.shape[1]).long(),
            answers,
        )


FORMS: dict[str, type[Form]] = {"one-row": Row, "two-sides": TwoSides}
"""The forms by the name that a model's class has as `form`."""


def _stack(rows: Sequence[Tensor], positions: int) -> Tensor:
    """Numbers of the words of each row, `(position, number)`, padded with zeros.

    `(batch, position, number)`.
    """
    full = rows[0].new_zeros(len(rows), positions, rows[0].shape[-1])
    for target, row in zip(full, rows, strict=True):
        target[: len(row)] = row
    return full


def _answers(group: Sequence[Window]) -> Int[Tensor, "batch 2"]:
    if not group:
        raise ValueError("collate() got no windows; expected at least one")
    return torch.tensor([item.answer for item in group])


@dataclass(frozen=True)
class Cutter:
    """Cuts questions into windows of at most `context` tokens, with questions of at most `longest_question`."""

    tokenizer: Tokenizer
    form: Form
    context: int
    longest_question: int

    def windows(self, example: Question) -> list[Window]:
        """Return all windows of a question; the answer is the first of the question's.

        Raises:
            InputError: there is no room for a part of the context, question or context has no token, or the answer is
                not in the context.
        """
        question = self.tokenizer.encode(example.question)[: self.longest_question]
        room = self.context - self.form.marks - len(question)
        if room < 2:
            raise InputError(
                f"{example.place}: {len(question)} tokens leave no room in a model.context of {self.context}"
            )
        ids, offsets = _cut(self.tokenizer, example.context)
        for name, text, result in (
            ("context", example.context, ids),
            ("question", example.question, question),
        ):
            if not result:
                raise InputError(
                    f"{example.place}: the {name} {text[:40]!r} has no token; give one with words"
                )
        question_words, words = (
            self.question_words(example),
            [example.context[begin:end] for begin, end in offsets],
        )
        features = word_features(question_words, words)
        spelled = [
            spellings(group, self.form.characters) for group in (question_words, words)
        ]
        first, span = self.form.first(question), _span(example, offsets)
        result, stride = [], room // 2
        for begin in range(0, max(1, len(ids) - room + stride), stride):
            end = min(begin + room, len(ids))
            inside = span is not None and begin <= span[0] and span[1] < end
            answer = (
                (span[0] - begin + first, span[1] - begin + first)
                if span is not None and inside
                else (0, 0)
            )
            part = slice(begin, end)
            read = features[part], spelled[0], spelled[1][part]
            result.append(
                Window(
                    question,
                    ids[part],
                    tuple(offsets[part]),
                    *read,
                    first,
                    answer,
                    self.form.marks,
                )
            )
        return result

    def question_words(self, example: Question) -> tuple[str, ...]:
        """Return the text of each token of a question that is read."""
        spans = self.tokenizer.offsets(example.question)[: self.longest_question]
        return tuple(example.question[begin:end].strip() for begin, end in spans)


@lru_cache(maxsize=8)  # questions about one paragraph follow each other
def _cut(tokenizer: Tokenizer, context: str) -> tuple[Ids, list[tuple[int, int]]]:
    return tokenizer.encode(context), tokenizer.offsets(context)


def _locate(example: Question) -> Question:
    """Return the same question.

    Raises:
        InputError: An answer that is not in its context.
    """
    if example.answers and example.answers[0].start is None:
        raise InputError(
            f"{example.place}: the answer {example.answers[0].text[:40]!r} is not in the context; correct it"
        )
    return example


def _span(
    example: Question, offsets: Sequence[tuple[int, int]]
) -> tuple[int, int] | None:
    """Return the first and last token of the answer, counted in the context."""
    if not example.answers:
        return None
    answer = _locate(example).answers[0]
    assert answer.start is not None
    end = answer.start + len(answer.text)
    inside = [
        place
        for place, (begin, stop) in enumerate(offsets)
        if begin < end and stop > answer.start
    ]
    if not inside:
        raise InputError(
            f"{example.place}: the answer {answer.text[:40]!r} has no token; correct it"
        )
    return inside[0], inside[-1]


@dataclass(frozen=True, kw_only=True)
class ExtractiveQA(FineTuning):
    """A run file.

    Questions are cut to `longest_question` tokens, answers have at most
    `longest_answer`. With `data.unanswerable` the prediction is empty unless the best
    span is better by `margin`, in logits.
    """

    takes: ClassVar[tuple[str, ...]] = tuple(SPAN_MODELS)

    task: Literal["extractive-qa"] = "extractive-qa"
    data: Questions
    model: SpanModelConfig | None = None
    longest_question: Size = 64
    longest_answer: Size = 30
    margin: Annotated[float, Field(allow_inf_nan=False)] = 0.0

    @property
    def reader(self) -> SpanModelConfig:
        """The model's sizes, known once the run has started."""
        assert self.model is not None
        return self.model
