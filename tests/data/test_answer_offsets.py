"""Answers by the offsets of their characters, in the cells of a table."""

import json
from pathlib import Path
from typing import Any

import pytest

from regard.data.questions import Answer
from regard.data.records import Records
from regard.errors import InputError
from regard.tasks.extractive_qa.data import Questions

CONTEXT = "June is warm. In June it rains."


def table(folder: Path, *lines: str, name: str = "q.csv") -> str:
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(folder / name)


def answers(path: str, **settings: Any) -> list[tuple[Answer, ...]]:
    return [each.answers for each in Questions(**settings).read(path)]


@pytest.mark.parametrize("start", ["17", "17.0", " 17"])
def test_an_offset_chooses_among_the_places_of_a_text(start: str, tmp_path: Path):
    path = table(tmp_path, "question,context,answer_text,answer_start", f"When?,{CONTEXT},June,{start}")
    assert answers(path) == [(Answer("June", 17),)]
    empty = table(tmp_path, "question,context,answer_text,answer_start", f"When?,{CONTEXT},June,")
    assert answers(empty) == [(Answer("June", 0),)]


@pytest.mark.parametrize("name", ["q.json", "q.jsonl", "memory"])
def test_lists_of_json(name: str, tmp_path: Path):
    record = {"question": "When?", "context": CONTEXT, "answer_text": ["June", "In June"], "answer_start": [17, 14]}
    line = json.dumps([record] if name == "q.json" else record)
    path = Records("rows", [record]) if name == "memory" else table(tmp_path, line, name=name)
    assert answers(path) == [(Answer("June", 17), Answer("In June", 14))]


@pytest.mark.parametrize(
    ("header", "row", "message"),
    [
        (
            "answer_text,answer_start",
            "June,16",
            "the context has ' Jun' at offset 16 and not the answer 'June', which begins at 0",
        ),
        ("answer_text,answer_start", "July,17", "the context has 'June' at offset 17 and not the answer 'July'"),
        ("answer_text,answer_start", "June,-1", "offset '-1'; expected a whole number from 0, or leave"),
    ],
)
def test_offsets_that_do_not_fit_are_named_by_their_line(header: str, row: str, message: str, tmp_path: Path):
    path = table(tmp_path, f"question,context,{header}", f"When?,{CONTEXT},June,0", f"When?,{CONTEXT},{row}")
    with pytest.raises(InputError) as refused:
        answers(path)
    assert str(refused.value).startswith(f"{path}:3: ")
    assert message in str(refused.value)
    assert "--set data.skip_bad=true" in str(refused.value)
    assert answers(path, skip_bad=True) == [(Answer("June", 0),)]


def test_an_offset_without_a_text_or_an_end(tmp_path: Path):
    path = table(tmp_path, "question,context,answer_start,answer", f"When?,{CONTEXT},17,June")
    with pytest.raises(InputError, match=r"no column 'answer_text', .*--set data.answer=answer"):
        answers(path)
    assert answers(path, answer="answer") == [(Answer("June", 17),)]
