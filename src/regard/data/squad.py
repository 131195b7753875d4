"""The files of SQuAD (Rajpurkar 2016, 1606.05250): questions about paragraphs, with their answers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.data.lines import Limits, read_lines
from regard.data.pair import Pair
from regard.data.tables import parse_json, read_jsonl
from regard.errors import InputError

WHOLE = Limits(max_line=2**28)
"""A published file is one line."""


def read_squad(path: str | Path) -> list[Pair]:
    """Question and paragraph, joined by a blank, with the answers; each on one line. Questions without an answer are
    left out. Raises InputError with file and place."""
    if Path(str(path).removesuffix(".gz")).suffix == ".jsonl":
        rows = read_jsonl(path, ("question", "context", "answer_text"))
        fields = ((row, *row.fields) for row in rows)
        return [
            joined(question, context, (answer, *row.others), row.place) for row, question, context, answer in fields
        ]
    document, fault = parse_json("\n".join(read_lines(path, WHOLE)))
    if fault:
        raise InputError(f"{path}: {fault}")
    found = list(_questions(document, str(path)))
    if not found:
        raise InputError(f"{path}: has no question with an answer")
    return found


def joined(question: str, context: str, answers: tuple[str, ...], place: str) -> Pair:
    """A question with its paragraph, and the answers, each different one once."""
    first, *others = dict.fromkeys(flat(answer) for answer in answers)
    return Pair(f"{flat(question)} {flat(context)}", first, place, others=tuple(others))


def flat(text: str) -> str:
    """On one line."""
    return " ".join(text.split())


def _questions(document: Any, path: str) -> Iterator[Pair]:
    try:
        for article, part in enumerate(document["data"]):
            for paragraph, text in enumerate(part["paragraphs"]):
                for number, question in enumerate(text["qas"]):
                    place = f"{path}: data[{article}].paragraphs[{paragraph}].qas[{number}]"
                    answers = tuple(_text(answer["text"], place) for answer in question["answers"])
                    if answers:
                        yield joined(_text(question["question"], place), _text(text["context"], place), answers, place)
    except (KeyError, TypeError) as error:
        raise InputError(
            f"{path}: is not a file of SQuAD ({error!r}); expected data > paragraphs > context, qas > question, answers"
        ) from error


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{place}: has {value!r} for a text; expected one that is not blank")
    return value
