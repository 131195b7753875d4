"""The two formats of SQuAD's questions."""

import json
from pathlib import Path
from typing import Any

import pytest

from regard.data.pairs import Pair, Squad
from regard.data.questions import Answer
from regard.data.records import Records
from regard.errors import InputError
from regard.tasks.extractive_qa.data import Questions

ANSWERS = [{"text": "Denver Broncos", "answer_start": 3}, {"text": "Broncos"}, {"text": "Denver Broncos"}]
DOCUMENT = {
    "data": [
        {
            "paragraphs": [
                {
                    "context": "The Denver\nBroncos won.",
                    "qas": [
                        {"question": " Who won?", "id": "a7", "answers": ANSWERS},
                        {"question": "Who lost?", "id": "a8", "answers": []},
                        {"question": "How\n?", "id": "a9", "answers": [{"text": "By\nluck"}]},
                    ],
                }
            ]
        }
    ]
}
FLAT = {"context": "It rains\nin June.", "question": "When?", "answer_text": "in June", "answer_start": 9}


def read_squad(path: str | Path) -> list[Pair]:
    return list(Squad().read(str(path)))


def written(folder: Path, name: str, content: object) -> str:
    path = folder / name
    path.write_text(json.dumps(content, indent=1 if name.endswith(".json") else None), encoding="utf-8")
    return str(path)


def test_as_published(tmp_path: Path):
    path = written(tmp_path, "dev.json", DOCUMENT)
    pair, other = read_squad(path)
    assert pair.source == "Who won? The Denver Broncos won."
    assert pair.references == ("Denver Broncos", "Broncos")
    assert pair.place == f"{path}: data[0].paragraphs[0].qas[0]"
    assert (other.source, other.target, other.place[-6:]) == ("How ? The Denver Broncos won.", "By luck", "qas[2]")


def test_several_answers_a_line(tmp_path: Path):
    path = written(tmp_path, "more.jsonl", FLAT | {"answer_text": ["in June", "June"]})
    assert read_squad(path)[0].references == ("in June", "June")


def changed(**parts: object) -> dict:
    question = {"question": "Who?", "answers": [{"text": "He"}]} | parts
    return {"data": [{"paragraphs": [{"context": "He did.", "qas": [question]}]}]}


def test_several_files_are_read_in_order(tmp_path: Path):
    one, two = written(tmp_path, "dev.json", DOCUMENT), written(tmp_path, "more.jsonl", FLAT)
    splits = Squad(train=(one, two), valid=(two,)).load()
    assert [pair.target for pair in splits.train] == ["Denver Broncos", "By luck", "in June"]
    assert (len(splits.valid), len(splits.test)) == (1, 0)
    with pytest.raises(InputError, match=r"data.train is not given; expected a file of questions"):
        Squad().load()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.json", [1], r"x.json:1: expected an object with keys, found int"),
        ("x.json", {"data": [{"title": "a"}]}, r"x.json: is no SQuAD file \(KeyError\('paragraphs'\)\)"),
        ("x.json", {"data": []}, r"x.json: no usable record"),
        ("x.json", changed(answers=[{"text": 5}]), r"x.json: data\[0\].paragraphs\[0\].qas\[0\]: got 5 as a text"),
        ("x.json", changed(answers=[{"text": " "}]), r"qas\[0\]: got ' ' as a text; expected one that is not blank"),
        ("x.json", changed(question=None), r"qas\[0\]: got None as a text"),
        ("x.jsonl", {"context": "a", "answer_text": "b"}, r"x.jsonl:1: .*question"),
    ],
)
def test_files_of_another_kind(name: str, content: object, said: str, tmp_path: Path):
    with pytest.raises(InputError, match=said):
        read_squad(written(tmp_path, name, content))


def test_a_file_that_is_not_json(tmp_path: Path):
    (tmp_path / "x.json").write_text("[" * 100_000, encoding="utf-8")
    with pytest.raises(InputError, match=r"x.json: character 1: JSON that cannot be read"):
        read_squad(tmp_path / "x.json")


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
