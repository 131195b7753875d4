"""The texts and the windows of questions, of which those of large files are on disk."""

from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from regard.data.bad_records import RowCollector
from regard.data.pieces import JsonCodec, Pieces, cut_up
from regard.data.squad import Question
from regard.data.stored import Stored
from regard.errors import InputError
from regard.models.span_reader import FEATURES
from regard.tasks.extractive_qa.data import Cutter, Questions, Window


@dataclass(frozen=True, eq=False)
class QuestionTexts:
    """The different contexts and questions of examples, as often as they are iterated over."""

    examples: Sequence[Question]

    def __iter__(self) -> Iterator[str]:
        seen: set[int] = set()  # of a large set the texts themselves would take the memory that it is on disk for
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
    collector = RowCollector(", ".join(questions.paths), data.skip_bad)

    def cut(example: Question) -> list[Window]:
        try:
            return cutter.windows(example)
        except InputError as error:
            text = str(error)
            collector.refuse_record(text if text.startswith(example.place) else f"{example.place}: {text}")
            return []

    form = f"{type(cutter.form).__name__} {cutter.form.special}"
    name = f"windows {cutter.tokenizer.digest} {form} {cutter.context} {cutter.longest_question} {data.skip_bad}"
    pieces = cut_up(questions, name, cut, _length, CODEC)
    kept = np.unique(pieces.owners)
    collector.check(len(kept))
    if len(kept) == len(questions):
        return questions, pieces
    rows = kept if questions.rows is None else questions.rows[kept]
    return questions.part(rows, f"{questions.name} {name}"), pieces


def _length(window: Window) -> int:
    return window.length


def _to_json(each: Window) -> list[Any]:
    """A window without its places in the context, which training does not need."""
    features = b64encode(each.features.numpy().astype("<f4").tobytes()).decode()
    return [each.question, each.part, features, each.first, each.answer, each.marks]


def _of_json(value: Any) -> Window:
    question, part, features, first, answer, marks = value
    numbers = np.frombuffer(b64decode(features), dtype="<f4").reshape(-1, FEATURES).copy()
    return Window(question, part, (), torch.from_numpy(numbers), first, (answer[0], answer[1]), marks)


CODEC = JsonCodec(_to_json, _of_json)
