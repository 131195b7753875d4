"""The files of SQuAD (Rajpurkar 2016, 1606.05250): questions about paragraphs, with their answers."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.lines import Limits, read_lines
from regard.data.pair import Pair
from regard.data.tables import parse_json, read_jsonl
from regard.errors import InputError

WHOLE = Limits(max_line=2**28)
"""A published file is one line."""


@dataclass(frozen=True)
class Answer:
    """Characters of a context, and the place of their first there; None where the context does not have them."""

    text: str
    start: int | None


@dataclass(frozen=True)
class Question:
    """A question about a context with its answers, each as right as the others, none where the context has none."""

    question: str
    context: str
    answers: tuple[Answer, ...]
    place: str


def read_questions(path: str | Path) -> list[Question]:
    """The questions of a .json file as it is published, or of .jsonl with `context`, `question` and `answer_text`, a
    text or a list of them, optionally .gz. Where no place is given, an answer is where its text is first in the
    context. Raises InputError with file and place."""
    if Path(str(path).removesuffix(".gz")).suffix == ".jsonl":
        rows = read_jsonl(path, ("question", "context", "answer_text"))
        fields = ((row, *row.fields) for row in rows)
        return [
            Question(question, context, tuple(placed(text, context) for text in (answer, *row.others)), row.place)
            for row, question, context, answer in fields
        ]
    document, fault = parse_json("\n".join(read_lines(path, WHOLE)))
    if fault:
        raise InputError(f"{path}: {fault}")
    return list(_questions(document, str(path)))


def read_squad(path: str | Path) -> list[Pair]:
    """Question and paragraph, joined by a blank, with the answers; each on one line. Questions without an answer are
    left out. Raises InputError with file and place."""
    found = [joined(each) for each in read_questions(path) if each.answers]
    if not found:
        raise InputError(f"{path}: has no question with an answer")
    return found


def joined(entry: Question) -> Pair:
    """A question with its paragraph, and the answers, each different one once."""
    first, *others = dict.fromkeys(flat(answer.text) for answer in entry.answers)
    return Pair(f"{flat(entry.question)} {flat(entry.context)}", first, entry.place, others=tuple(others))


def flat(text: str) -> str:
    """On one line."""
    return " ".join(text.split())


def placed(text: str, context: str, start: Any = None) -> Answer:
    """An answer at the place that is given for it, if it is there, else at the first where it is."""
    if isinstance(start, int) and start >= 0 and context.startswith(text, start):
        return Answer(text, start)
    first = context.find(text)
    return Answer(text, None if first < 0 else first)


def _questions(document: Any, path: str) -> Iterator[Question]:
    try:
        for article, part in enumerate(document["data"]):
            for paragraph, text in enumerate(part["paragraphs"]):
                for number, entry in enumerate(text["qas"]):
                    place = f"{path}: data[{article}].paragraphs[{paragraph}].qas[{number}]"
                    question, context = _text(entry["question"], place), _text(text["context"], place)
                    spans = [(_text(each["text"], place), each.get("answer_start")) for each in entry["answers"]]
                    yield Question(question, context, tuple(placed(each, context, at) for each, at in spans), place)
    except (KeyError, TypeError) as error:
        raise InputError(
            f"{path}: is not a file of SQuAD ({error!r}); expected data > paragraphs > context, qas > question, answers"
        ) from error


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{place}: has {value!r} for a text; expected one that is not blank")
    return value
