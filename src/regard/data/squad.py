"""The files of SQuAD (Rajpurkar 2016, 1606.05250): questions about paragraphs, with their answers."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.lines import Limits, read_lines
from regard.data.pair import Pair
from regard.data.tables import parse_json, read_jsonl
from regard.errors import InputError

PUBLISHED = Limits(max_line=2**28)
"""A published file is a single line."""


@dataclass(frozen=True)
class Answer:
    """An answer's text and the offset of its first character in the context; None if the context lacks the text."""

    text: str
    start: int | None


@dataclass(frozen=True)
class Question:
    """A question about a context, with all correct answers; none if the context does not answer it."""

    question: str
    context: str
    answers: tuple[Answer, ...]
    place: str


def read_questions(path: str | Path) -> list[Question]:
    """Read the questions of a published .json file, or of .jsonl with `context`, `question` and `answer_text` (a string
    or a list), optionally .gz. An answer without an offset starts where its text first occurs in the context.

    Raises InputError with file and place."""
    if Path(str(path).removesuffix(".gz")).suffix == ".jsonl":
        rows = read_jsonl(path, ("question", "context", "answer_text"))
        fields = ((row, *row.fields) for row in rows)
        return [
            Question(question, context, tuple(locate(text, context) for text in (answer, *row.others)), row.place)
            for row, question, context, answer in fields
        ]
    document, fault = parse_json("\n".join(read_lines(path, PUBLISHED)))
    if fault:
        raise InputError(f"{path}: {fault}")
    return list(_questions(document, str(path)))


def read_squad(path: str | Path) -> list[Pair]:
    """Read pairs of `question context` and answer, each on one line. Questions without an answer are skipped.

    Raises InputError with file and place."""
    found = [as_pair(each) for each in read_questions(path) if each.answers]
    if not found:
        raise InputError(f"{path}: has no question with an answer")
    return found


def as_pair(entry: Question) -> Pair:
    """A question with its context as the source, and the distinct answers as targets."""
    first, *others = dict.fromkeys(one_line(answer.text) for answer in entry.answers)
    return Pair(f"{one_line(entry.question)} {one_line(entry.context)}", first, entry.place, others=tuple(others))


def one_line(text: str) -> str:
    """The text with every run of white space as one blank."""
    return " ".join(text.split())


def locate(text: str, context: str, start: Any = None) -> Answer:
    """The answer at its offset `start` if the text is there, else at its first occurrence."""
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
                    yield Question(question, context, tuple(locate(each, context, at) for each, at in spans), place)
    except (KeyError, TypeError) as error:
        raise InputError(
            f"{path}: is no SQuAD file ({error!r}); expected data > paragraphs > context, qas > question, answers"
        ) from error


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{place}: got {value!r} as a text; expected a string that is not blank")
    return value
