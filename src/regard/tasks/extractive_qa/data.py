"""Questions as windows of their contexts, for models that predict where an answer begins and ends.

A window is [start] question [end] part-of-the-context [end]; one after the other goes on by a stride and has what lies
between in common with it, so that an answer of no more than that is whole in one of them (Devlin 2019, section 4.2).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor

from regard.data.batching import Batch
from regard.data.bert_inputs import Ids, bert_inputs
from regard.data.splits import Splits
from regard.data.squad import Question, QuestionFiles
from regard.errors import InputError
from regard.shapes import Int
from regard.text import SPECIAL, SpecialTokens, Tokenizer


@dataclass(frozen=True, kw_only=True)
class Questions(QuestionFiles):
    """Questions about paragraphs; a run that was imported has none to train on. Questions without an answer are left
    out, unless `unanswerable` is set."""

    kind: Literal["spans"] = "spans"
    unanswerable: bool = False

    def load(self) -> Splits[Question]:
        """Read all files. Raises InputError with file and place for an invalid record."""
        return self.questions()

    def tests(self) -> list[Question]:
        """The questions of the test set; none without one. Raises InputError as `load` does."""
        return self.test_questions()

    def read(self, path: str) -> list[Question]:
        """The questions of another file. Raises InputError as `load` does, and for a file without any."""
        if not self.unanswerable:
            return super().read(path)
        found = self.every_question(path)
        if not found:
            raise InputError(f"{path}: has no question")
        return found


@dataclass(frozen=True)
class Window:
    """A question's tokens with those of a part of its context, which begins at the position `first` and stands for the
    `offsets` in the context, half-open spans of characters. `answer` are the positions of its first and last token,
    both 0 where the part does not have it whole."""

    question: Ids
    part: Ids
    offsets: tuple[tuple[int, int], ...]
    answer: tuple[int, int] = (0, 0)

    @property
    def first(self) -> int:
        """The position of the part's first token, behind the question and its special tokens."""
        return len(self.question) + 2

    @property
    def length(self) -> int:
        """The number of tokens, special tokens included."""
        return self.first + len(self.part) + 1


def windows(example: Question, tokenizer: Tokenizer, context: int, longest_question: int) -> list[Window]:
    """All windows of a question, each of at most `context` tokens, its answer the first of the question's.

    Raises:
        InputError: there is no room for a part of the context, it has no token, or the answer is not in it.
    """
    question = tokenizer.encode(example.question)[:longest_question]
    room = context - 3 - len(question)
    if room < 2:
        raise InputError(f"{example.place}: {len(question)} tokens leave no room in a model.context of {context}")
    ids, offsets = _cut(tokenizer, example.context)
    if not ids:
        raise InputError(f"{example.place}: the context {example.context[:40]!r} has no token; give one with words")
    span = _span(example, offsets)
    found, stride = [], room // 2
    for first in range(0, max(1, len(ids) - room + stride), stride):
        last = min(first + room, len(ids))
        inside = span is not None and first <= span[0] and span[1] < last
        before = first - len(question) - 2
        answer = (span[0] - before, span[1] - before) if span is not None and inside else (0, 0)
        found.append(Window(question, ids[first:last], tuple(offsets[first:last]), answer))
    return found


@lru_cache(maxsize=8)  # questions about one paragraph follow each other
def _cut(tokenizer: Tokenizer, context: str) -> tuple[Ids, list[tuple[int, int]]]:
    return tokenizer.encode(context), tokenizer.offsets(context)


def _span(example: Question, offsets: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """The first and last token of the answer, counted in the context."""
    if not example.answers:
        return None
    answer = example.answers[0]
    if answer.start is None:
        raise InputError(f"{example.place}: the answer {answer.text[:40]!r} is not in the context; correct it")
    end = answer.start + len(answer.text)
    inside = [place for place, (begin, stop) in enumerate(offsets) if begin < end and stop > answer.start]
    if not inside:
        raise InputError(f"{example.place}: the answer {answer.text[:40]!r} has no token; correct it")
    return inside[0], inside[-1]


@dataclass(frozen=True)
class SpanBatch(Batch):
    """Windows padded on the right, the segment of each token, and where each answer begins and ends."""

    tokens: Int[Tensor, "batch position"]
    lengths: Int[Tensor, " batch"]
    segments: Int[Tensor, "batch position"]
    answers: Int[Tensor, "batch 2"]


def collate_windows(some: Sequence[Window], special: SpecialTokens = SPECIAL) -> SpanBatch:
    """A batch of windows. Raises ValueError for none."""
    if not some:
        raise ValueError("collate_windows() got no windows; expected at least one")
    rows = bert_inputs(special, [(each.question, each.part) for each in some])
    return SpanBatch(*rows, torch.tensor([each.answer for each in some]))
