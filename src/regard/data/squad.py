"""The files of SQuAD (Rajpurkar 2016, 1606.05250): questions about paragraphs, with their answers."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.data.lines import read_lines
from regard.data.pair import Pair
from regard.data.readers import read_jsonl
from regard.errors import InputError


def read_squad(path: str | Path) -> list[Pair]:
    """Question and paragraph, joined by a blank, with the answers. Raises InputError with file and place."""
    if Path(str(path).removesuffix(".gz")).suffix == ".jsonl":
        contexts = read_jsonl(path, ("context", "answer_text"))
        questions = read_jsonl(path, ("question", "answer_text"))
        pairs = zip(questions, contexts, strict=True)
        return [Pair(f"{one.source} {flat(two.source)}", one.target, one.place) for one, two in pairs]
    try:
        document = json.loads("\n".join(read_lines(path)))
    except ValueError as error:
        raise InputError(f"{path}: is not JSON ({error})") from error
    return list(_questions(document, str(path)))


def _questions(document: Any, path: str) -> Iterator[Pair]:
    try:
        for article, part in enumerate(document["data"]):
            for paragraph, text in enumerate(part["paragraphs"]):
                for question in text["qas"]:
                    place = f"{path}: data[{article}].paragraphs[{paragraph}], question {question['id']}"
                    answers = list(dict.fromkeys(answer["text"] for answer in question["answers"]))
                    if answers:
                        source = f"{question['question'].strip()} {flat(text['context'])}"
                        yield Pair(source, answers[0], place, others=tuple(answers[1:]))
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path}: is not a file of SQuAD ({error!r}); expected data > paragraphs > context, qas > question, answers"
        ) from error


def flat(text: str) -> str:
    """On one line."""
    return " ".join(text.split())
