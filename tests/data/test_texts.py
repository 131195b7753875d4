"""Running text: its units, and its held-out part."""

from pathlib import Path
from typing import Any

import pytest

from regard.data.texts import RunningText, with_column
from regard.errors import InputError
from regard.tasks.masked_language_model.config import Documents


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "text.txt"
    path.write_text("one two\n\nthree\nfour five six\n", encoding="utf-8")
    return str(path)


def test_lines_are_texts_and_blank_ones_too(file: str):
    found = RunningText(train=file, valid=file, test=file).load()
    assert found.train == found.valid == found.test == ["one two", "", "three", "four five six"]


def test_a_file_is_one_text(file: str):
    found = RunningText(train=file, valid=file, unit="file").load()
    assert found.train == ["one two\n\nthree\nfour five six\n"]
    assert found.test == []


def test_the_end_is_held_out(file: str):
    found = RunningText(train=file, held_out=0.4).load()
    assert (found.train, found.valid) == (["one two", "", "three"], ["four five six"])
    whole = RunningText(train=file, held_out=0.6, unit="file").load()
    assert (whole.train, whole.valid) == (["one two\n\n"], ["three\nfour five six\n"])


def test_too_few_lines_to_hold_some_out(tmp_path: Path):
    path = tmp_path / "short.txt"
    path.write_text("\nall of it\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"2 lines are too few to hold some out; give data.valid"):
        RunningText(train=str(path)).load()


@pytest.fixture
def posts(tmp_path: Path) -> str:
    path = tmp_path / "posts.jsonl"
    path.write_text('{"id": "7", "body": "one two\\n\\nthree"}\n{"id": "8", "body": ["four five six", "7"]}\n')
    return str(path)


def test_the_lines_of_a_column_of_a_table_are_those_of_a_text(tmp_path: Path, posts: str):
    lines = ["one two", "", "three", "four five six", "7"]
    data = RunningText(train=posts, valid=posts, text="body")
    assert data.load().train == data.load().valid == lines
    assert RunningText(train=posts, held_out=0.5, text="body").load().train == lines[:3]
    assert RunningText(train=posts, valid=posts, unit="file", text="body").load().train == ["\n".join(lines) + "\n"]
    table = tmp_path / "posts.csv"
    table.write_text('7,"one two\n\nthree"\n8,four five six\n')
    assert RunningText(train=str(table), valid=posts, text=2).read(str(table)) == lines[:4]
    assert with_column(data, "2").read(str(table)) == lines[:4]
    assert with_column(data, None) is data


@pytest.mark.parametrize("kind", [RunningText, Documents])
def test_a_table_without_its_column_is_no_running_text(tmp_path: Path, posts: str, kind):
    with pytest.raises(InputError, match=r"posts.jsonl: a table, .* has it by --set data.text=COLUMN$"):
        kind(train=posts).load()
    with pytest.raises(InputError, match=r"no column 'txt', there are .*; name yours with --set data.text=COLUMN"):
        kind(train=posts, text="txt").load()


@pytest.mark.parametrize("kind", [RunningText, Documents])
@pytest.mark.parametrize(("name", "content"), [("blank.txt", "\n \n\n"), ("blank.csv", 'id,body\n1," "\n')])
def test_a_file_of_blank_lines_only_is_refused(kind: type[Any], name: str, content: str, file: str, tmp_path: Path):
    path = str(tmp_path / name)
    Path(path).write_text(content, encoding="utf-8")
    for sets in ({"train": path}, {"train": path, "valid": file}, {"train": file, "valid": path}):
        with pytest.raises(InputError, match=rf"{name}: .*all .*blank"):
            kind(**sets, text="body").load()
