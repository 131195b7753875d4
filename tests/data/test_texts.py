"""Running text: its units, and its held-out part."""

from pathlib import Path

import pytest

from regard.data.texts import RunningText
from regard.errors import InputError
from regard.tasks.masked_language_model.data import Documents


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


@pytest.mark.parametrize("share", [0.0, 1.0, -0.5])
def test_a_share_that_is_none(share: float):
    with pytest.raises(InputError, match="expected a share above 0 and below 1"):
        RunningText(train="x", held_out=share)


@pytest.mark.parametrize("kind", [RunningText, Documents])
def test_a_table_is_no_running_text(tmp_path: Path, kind):
    posts = tmp_path / "posts.jsonl"
    posts.write_text('{"id": "7", "body": "a longer text"}\n')
    with pytest.raises(
        InputError, match=r"posts.jsonl: a table, .*; write one column to a .txt file, as by `jq -r .body "
    ):
        kind(train=str(posts)).load()
    with pytest.raises(InputError, match=r"posts.csv: a table, .* to a .txt file$"):
        kind(train=str(tmp_path / "posts.csv")).load()
