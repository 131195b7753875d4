"""The texts and the windows of questions, of which those of large files are on disk."""

from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.data.bad_records import RowCollector
from regard.data.pieces import JsonCodec, Pieces, cut_up
from regard.data.squad import Question
from regard.data.stored import Stored
from regard.errors import InputError
from regard.tasks.extractive_qa.data import Cutter, Questions, Window


@dataclass(frozen=True, eq=False)
class QuestionTexts:
    """The different contexts and questions of examples, as often as they are iterated over."""

    examples: Sequence[Question]

    def __iter__(self) -> Iterator[str]:
        seen: set[int] = (
            set()
        )  # of a large set the texts themselves would take the memory that it is on disk for
        for each in self.examples:
            for text in (each.context, each.question):
                if (number := hash(text)) not in seen:
                    seen.add(number)
                    yield text


def kept_windows(windows: Sequence[Sequence[Window]]) -> Pieces[Window]:
    """The windows of questions in memory."""
    return cut_up(windows, "", list, _length, CODEC)


def window_pieces(
    questions: Stored[Question], cutter: Cutter, data: Questions
) -> tuple[Stored[Question], Pieces[Window]]:
    """The questions on disk that have windows, and these, which are made once. Raises BadRecord for a question without;
    with `skip_bad` it is left out."""
    path = ", ".join(questions.paths)

    def cut(example: Question) -> list[Window]:
        try:
            return cutter.windows(example)
        except InputError as error:
            RowCollector(path, data.skip_bad).refuse_record(_fault(example, error))
            return []

    name = f"windows {cutter.tokenizer.digest} {cutter.form} {cutter.context} {cutter.longest_question} {data.skip_bad}"
    pieces = cut_up(questions, name, cut, _length, CODEC)
    kept = np.unique(pieces.owners)
    if len(kept) == len(questions):
        return questions, pieces
    collector = RowCollector(
        path, data.skip_bad
    )  # another process, or an earlier start, skipped them
    for row in np.setdiff1d(np.arange(len(questions)), kept).tolist():
        collector.refuse_record(
            f"{questions[row].place}: it has no window, for want of words or of room"
        )
    collector.check(len(kept))
    rows = kept if questions.rows is None else questions.rows[kept]
    return questions.part(rows, f"{questions.name} {name}"), pieces


def _fault(example: Question, error: InputError) -> str:
    text = str(error)
    return text if text.startswith(example.place) else f"{example.place}: {text}"


def _length(window: Window) -> int:
    return window.length


def _to_json(each: Window) -> list[Any]:
    """A window without its places in the context, which training does not need."""
    tensors = [
        _packed(tensor)
        for tensor in (each.features, each.question_spellings, each.spellings)
    ]
    return [each.question, each.part, tensors, each.first, each.answer, each.marks]


def _of_json(value: Any) -> Window:
    question, part, tensors, first, answer, marks = value
    features, question_spellings, spellings = map(_unpacked, tensors)
    ends = answer[0], answer[1]
    return Window(
        question, part, (), features, question_spellings, spellings, first, ends, marks
    )


def _packed(tensor: Tensor) -> list[Any]:
    """A tensor as the name of its type, its shape and its bytes."""
    array = tensor.contiguous().numpy()
    return [array.dtype.str, list(array.shape), b64encode(array.tobytes()).decode()]


def _unpacked(value: Any) -> Tensor:
    kind, shape, content = value
    return torch.from_numpy(
        np.frombuffer(b64decode(content), dtype=kind).reshape(shape).copy()
    )


CODEC = JsonCodec(_to_json, _of_json)
