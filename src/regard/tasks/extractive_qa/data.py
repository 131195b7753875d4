"""Questions as windows of their contexts, for models that predict where an answer begins and ends.

Each window begins half a window after the one before it, so that an answer of at most half a window is whole in one of
them (Devlin 2019, section 4.2). BERT reads a window as one row, [start] question [end] part-of-the-context [end]; a
span reader reads question and part apart.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor

from regard.data.batching import InputBatch, padded
from regard.data.bert_inputs import Ids, bert_inputs, marks
from regard.data.splits import Splits
from regard.data.squad import Question, QuestionFiles, StoredQuestions, listed
from regard.data.stored import is_large, stored
from regard.data.stored_pairs import held_out_rows, numbers
from regard.data.usable import usable, usable_stream
from regard.errors import InputError
from regard.shapes import Float, Int
from regard.tasks.extractive_qa.features import spellings, word_features
from regard.text import SPECIAL, SpecialTokens, Tokenizer


@dataclass(frozen=True, kw_only=True)
class Questions(QuestionFiles):
    """Questions about paragraphs; a run that was imported has none to train on. Questions without an answer are left
    out, unless `unanswerable` is set."""

    kind: Literal["spans"] = "spans"
    unanswerable: bool = False

    def load(self) -> Splits[Question]:
        """Read all files. Raises InputError with file and place for an invalid record."""
        paths = listed(self.train)
        if not paths or not is_large(paths):
            return self.questions()
        how = f"{self.columns | self.offsets} {self.layout()} {self.skip_bad} {self.unanswerable}"
        every = stored(
            StoredQuestions, paths, how, lambda: self._streamed(paths), lambda: 0
        )
        if self.valid:
            return Splits(
                every,
                [each for path in listed(self.valid) for each in self.read(path)],
                self.tests(),
            )
        rest, held, name = held_out_rows(
            self, every, "questions", lambda: numbers(each.context for each in every)
        )
        return Splits(
            every.part(rest, name), [every[row] for row in held], self.tests()
        )

    def tests(self) -> list[Question]:
        """The questions of the test set; none without one. Raises InputError as `load` does."""
        return self.test_questions()

    def read(self, path: str) -> list[Question]:
        """The questions of another file. Raises InputError as `load` does, and for a file without any."""
        if not self.unanswerable:
            return usable(super().read(path), _located, path, skip_bad=self.skip_bad)
        found = self.every_question(path)
        if not found:
            raise InputError(f"{path}: has no question")
        return usable(found, _located, path, skip_bad=self.skip_bad)

    def _streamed(self, paths: Sequence[str]) -> Iterator[Question]:
        """The questions that `read` returns, one in memory at a time."""
        for path in paths:
            found = (
                each
                for each in self.streamed_questions(path)
                if each.answers or self.unanswerable
            )
            yield from usable_stream(found, _located, path, skip_bad=self.skip_bad)


@dataclass(frozen=True)
class Window:
    """A question's tokens with those of a part of its context, which stands for the `offsets` in the context, half-open
    spans of characters. A span reader reads the `features` of the part's words, and the characters of the words of
    both, `question_spellings` and `spellings`. `first` is the position of the part's first token
    among a model's logits. `answer` are the positions of the answer's first and last token, both 0 where the part does
    not have it whole. `marks` is the number of special tokens in the row."""

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
        return marks(self.special, 2)

    @abstractmethod
    def first(self, question: Ids) -> int:
        """The position of a part's first token among the logits."""

    @abstractmethod
    def collate(self, some: Sequence[Window]) -> SpanBatch:
        """A batch of windows. Raises ValueError for none."""


@dataclass(frozen=True)
class Row(Form):
    """[start] question [end] part [end]; position 0 stands for no answer."""

    def first(self, question: Ids) -> int:
        return len(question) + 1 + self.special.between

    def collate(self, some: Sequence[Window]) -> RowBatch:
        rows = bert_inputs(self.special, [(each.question, each.part) for each in some])
        return RowBatch(*rows, _answers(some))


@dataclass(frozen=True)
class TwoSides(Form):
    """Question and part apart; position 0 stands for no answer."""

    def first(self, question: Ids) -> int:
        return 1

    def collate(self, some: Sequence[Window]) -> TwoSidesBatch:
        answers = _answers(some)
        question, question_lengths = padded([each.question for each in some])
        context, lengths = padded([each.part for each in some], MULTIPLE)
        return TwoSidesBatch(
            question,
            question_lengths,
            context,
            lengths,
            _stacked([each.features for each in some], context.shape[1]),
            _stacked(
                [each.question_spellings for each in some], question.shape[1]
            ).long(),
            _stacked([each.spellings for each in some], context.shape[1]).long(),
            answers,
        )


FORMS: dict[str, type[Form]] = {"one-row": Row, "two-sides": TwoSides}
"""The forms by the name that a model's class has as `form`."""


def _stacked(rows: Sequence[Tensor], positions: int) -> Tensor:
    """Numbers of the words of each row, `(position, number)`, padded with zeros: `(batch, position, number)`."""
    whole = rows[0].new_zeros(len(rows), positions, rows[0].shape[-1])
    for target, row in zip(whole, rows, strict=True):
        target[: len(row)] = row
    return whole


def _answers(some: Sequence[Window]) -> Int[Tensor, "batch 2"]:
    if not some:
        raise ValueError("collate() got no windows; expected at least one")
    return torch.tensor([each.answer for each in some])


@dataclass(frozen=True)
class Cutter:
    """Cuts questions into windows of at most `context` tokens, with questions of at most `longest_question`."""

    tokenizer: Tokenizer
    form: Form
    context: int
    longest_question: int

    def windows(self, example: Question) -> list[Window]:
        """All windows of a question; the answer is the first of the question's.

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
        for name, text, found in (
            ("context", example.context, ids),
            ("question", example.question, question),
        ):
            if not found:
                raise InputError(
                    f"{example.place}: the {name} {text[:40]!r} has no token; give one with words"
                )
        question_words, words = (
            self.question_words(example),
            [example.context[begin:end] for begin, end in offsets],
        )
        features = word_features(question_words, words)
        spelled = [
            spellings(some, self.form.characters) for some in (question_words, words)
        ]
        first, span = self.form.first(question), _span(example, offsets)
        found, stride = [], room // 2
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
            found.append(
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
        return found

    def question_words(self, example: Question) -> tuple[str, ...]:
        """The text of each token of a question that is read."""
        spans = self.tokenizer.offsets(example.question)[: self.longest_question]
        return tuple(example.question[begin:end].strip() for begin, end in spans)


@lru_cache(maxsize=8)  # questions about one paragraph follow each other
def _cut(tokenizer: Tokenizer, context: str) -> tuple[Ids, list[tuple[int, int]]]:
    return tokenizer.encode(context), tokenizer.offsets(context)


def _located(example: Question) -> Question:
    """The same question. Raises InputError for an answer that is not in its context."""
    if example.answers and example.answers[0].start is None:
        raise InputError(
            f"{example.place}: the answer {example.answers[0].text[:40]!r} is not in the context; correct it"
        )
    return example


def _span(
    example: Question, offsets: Sequence[tuple[int, int]]
) -> tuple[int, int] | None:
    """The first and last token of the answer, counted in the context."""
    if not example.answers:
        return None
    answer = _located(example).answers[0]
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
