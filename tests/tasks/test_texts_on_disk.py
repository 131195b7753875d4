"""Rows of large tables are on disk: the same examples, ids, digests and losses as in memory, encoded once."""

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.data import stored
from regard.data.columns import Ragged
from regard.data.sources import Table
from regard.data.stored import StoredPairs
from regard.errors import InputError
from regard.runs import run_file, train
from regard.runs.recipes import path_of
from regard.storage import cache_folder
from regard.storage.run_folder import RunDirectory
from regard.tasks.catalog import TASKS
from regard.tasks.classification.data import LabelledTables, StoredLabelled
from regard.tasks.classification.encoded import EncodedTexts
from regard.tasks.regression.config import NumberTables
from regard.tasks.seq2seq.setup import pairs_digest

pytest.importorskip("pyarrow")
WORDS = ["a", "bird", "saw", "the", "old", "tree", "while", "no", "one", "was", "near", "it", "and", "so", "on"]
MODEL = ["model.layers=1", "model.width=16", "model.heads=2", "model.hidden=16", "model.context=32"]
TRAINING = ["training.steps=3", "training.warmup=0", "training.batch_tokens=64", "training.threads=1"]
TRAINING += ["training.precision=fp32", "training.validate_every=0", "training.log_every=1"]


def rows(count: int = 60) -> list[dict[str, Any]]:
    source = random.Random(5)
    texts = [" ".join(source.choices(WORDS, k=source.randint(2, 9))) for _ in range(count)]
    return [
        {
            "text": text,
            "label": ("good", "bad", "none")[len(text) % 3],
            "number": len(text) / 7,
            "sets": text.split()[:2],
        }
        for text in texts
    ]


def csv(path: Path, separator: str = ",") -> None:
    lines = [
        separator.join((each["text"], each["label"], str(each["number"]), "|".join(each["sets"]))) for each in rows()
    ]
    path.write_text("\n".join([separator.join(("text", "label", "number", "sets")), *lines]) + "\n")


def jsonl(path: Path) -> None:
    path.write_text("".join(json.dumps(each) + "\n" for each in rows()))


def parquet(path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows()), path, row_group_size=7)


WRITERS: dict[str, Callable[[Path], None]] = {"csv": csv, "jsonl": jsonl, "parquet": parquet}


@pytest.fixture(autouse=True)
def everything_is_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stored, "SMALL", 1)
    monkeypatch.setattr("regard.data.stored.ROWS", 16)
    monkeypatch.setattr("regard.data.table.ROWS", 16)
    monkeypatch.setenv(cache_folder.VARIABLE, str(tmp_path / "cache"))


@pytest.mark.parametrize("ending", WRITERS)
@pytest.mark.parametrize("given", [True, False], ids=["valid", "held out"])
def test_texts_on_disk_are_those_in_memory(ending: str, given: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / f"a.{ending}"
    WRITERS[ending](path)
    data = LabelledTables(train=str(path), valid=str(path) if given else None, held_out=0.2)
    disk = data.load()
    monkeypatch.setattr(stored, "SMALL", 1 << 30)
    memory = data.load()
    assert isinstance(disk.train, StoredLabelled)
    assert isinstance(memory.train, list)
    assert list(disk.train) == memory.train
    assert list(disk.valid) == memory.valid
    assert len(disk.train) == (60 if given else 48)


@pytest.mark.parametrize("ending", WRITERS)
def test_pairs_of_a_table_on_disk_are_those_in_memory(ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / f"a.{ending}"
    WRITERS[ending](path)
    target = "label" if ending == "csv" else "sets"
    data = Table(train=str(path), source="text", target=target, held_out=0.2)
    disk = data.load()
    monkeypatch.setattr(stored, "SMALL", 1 << 30)
    memory = data.load()
    assert isinstance(disk.train, StoredPairs)
    assert list(disk.train) == memory.train
    assert list(disk.valid) == memory.valid
    assert pairs_digest(disk) == pairs_digest(memory)
    assert any(pair.others for pair in disk.train) is (ending != "csv")


def recipe(name: str, path: Path, *more: str) -> Any:
    return run_file.read(path_of(name), [f"data.train={path}", *MODEL, *TRAINING, *more])


RECIPES = {
    "classify": (),
    "multi-label": ("data.label=sets",),
    "regression": ("data.label=number",),
}


@pytest.mark.parametrize("name", RECIPES)
def test_a_run_from_disk_is_one_from_memory(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    csv(tmp_path / "a.csv")
    config = recipe(name, tmp_path / "a.csv", *RECIPES[name])
    disk = train.train(config, tmp_path / "disk")
    with monkeypatch.context() as patch:
        patch.setattr(stored, "SMALL", 1 << 30)
        memory = train.train(config, tmp_path / "memory")
    figures = [{key: figure for key, figure in each.items() if key.startswith("valid")} for each in (disk, memory)]
    assert figures[0] == figures[1]
    names = ("identity.json", "tokenizer.json", "data.json", "weights.safetensors")
    for each in names:
        assert (tmp_path / "disk" / each).read_bytes() == (tmp_path / "memory" / each).read_bytes(), each


def test_a_second_start_encodes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    csv(tmp_path / "a.csv")
    config = recipe("classify", tmp_path / "a.csv")

    def begun(folder: str) -> Any:
        with RunDirectory.create(tmp_path / folder) as run:
            return TASKS[config.task].setup(config, run, 1)

    first = begun("first")
    assert isinstance(first.objective.train, EncodedTexts)

    def refused(*_: Any) -> Any:
        raise AssertionError("this was done before")

    monkeypatch.setattr(LabelledTables, "streamed", refused)
    monkeypatch.setattr("regard.text.Tokenizer.train", refused)
    monkeypatch.setattr(Ragged, "of_texts", refused)
    second = begun("second")
    assert second.digest == first.digest
    assert list(second.objective.batches(0)) == list(first.objective.batches(0))
    assert second.objective.place(3) == f"{tmp_path}/a.csv:5"


def test_decimal_commas_of_a_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    lines = ["text;label", *(f"text {number};{number},5" for number in range(30))]
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    data = NumberTables(train=str(tmp_path / "a.csv"))
    disk = data.load()
    assert isinstance(disk.train, StoredLabelled)
    assert [each.label for each in disk.train][:3] == [0.5, 1.5, 2.5]


def test_a_bad_row_of_a_large_file_is_named(tmp_path: Path):
    csv(tmp_path / "a.csv")
    with (tmp_path / "a.csv").open("a") as file:
        file.write("only a text\n")
    with pytest.raises(InputError, match=r"a.csv:62: 1 columns, expected 4 columns as in line 1"):
        LabelledTables(train=str(tmp_path / "a.csv")).load()
    found = LabelledTables(train=str(tmp_path / "a.csv"), skip_bad=True).load()
    assert len(found.train) + len(found.valid) == 60
    assert os.listdir(tmp_path / "cache" / "sets")
