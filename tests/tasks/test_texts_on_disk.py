"""Rows of large tables are on disk: the same examples, ids, digests and losses as in memory, encoded once."""

import json
import os
import pickle
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from regard.data import cache
from regard.data.cache import CachedSet, Shard
from regard.data.pairs import Multiparallel, Table
from regard.errors import InputError
from regard.runs import run_file, train
from regard.runs.recipes import path_of
from regard.storage import cache_folder
from regard.storage.run_folder import RunDirectory
from regard.tasks.catalog import TASKS
from regard.tasks.classification.data import LabelledTables
from regard.tasks.seq2seq.training import digest_pairs

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
            "part": ("first", "second", "third")[len(text) % 3],
            "number": len(text) / 7,
            "sets": text.split()[:2],
        }
        for text in texts
    ]


def csv(path: Path, separator: str = ",") -> None:
    lines = [
        separator.join((each["text"], each["label"], each["part"], str(each["number"]), "|".join(each["sets"])))
        for each in rows()
    ]
    path.write_text("\n".join([separator.join(("text", "label", "part", "number", "sets")), *lines]) + "\n")


def jsonl(path: Path) -> None:
    path.write_text("".join(json.dumps(each) + "\n" for each in rows()))


def parquet(path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows()), path, row_group_size=7)


WRITERS: dict[str, Callable[[Path], None]] = {"csv": csv, "jsonl": jsonl, "parquet": parquet}


@pytest.fixture(autouse=True)
def everything_is_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cache, "SMALL", 1)
    monkeypatch.setattr("regard.data.cache.ROWS", 16)
    monkeypatch.setenv(cache_folder.VARIABLE, str(tmp_path / "cache"))


@pytest.mark.parametrize(
    "folds",
    [
        {"valid_folds": ("first",), "test_folds": ("second",)},
        {"test_folds": ("second",), "held_out": 0.2},
        {"test_folds": ("second",), "valid": "a.csv"},
    ],
)
def test_folds_on_disk_are_those_in_memory(folds: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    csv(tmp_path / "a.csv")
    monkeypatch.chdir(tmp_path)
    data = LabelledTables(train="a.csv", fold="part", **folds)
    disk, tests = data.load(), data.tests()
    with pytest.raises(InputError, match=r"a.csv: the column 'part' has first, second, third; expected .*last"):
        replace(data, test_folds=("last",)).load()
    with pytest.raises(InputError, match="no row is left to train on; give fewer folds"):
        replace(data, valid=None, valid_folds=("first", "third"), test_folds=("second",)).load()
    monkeypatch.setattr(cache, "SMALL", 1 << 30)
    memory = data.load()
    assert isinstance(disk.train, CachedSet)
    for name, some in memory.by_name.items():
        assert list(disk.by_name[name]) == list(some)
        assert len(some) > 5
    assert list(tests) == list(memory.test)


@pytest.mark.parametrize("ending", WRITERS)
def test_pairs_of_a_table_on_disk_are_those_in_memory(ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / f"a.{ending}"
    WRITERS[ending](path)
    target = "label" if ending == "csv" else "sets"
    data = Table(train=str(path), source="text", target=target, held_out=0.2)
    disk = data.load()
    monkeypatch.setattr(cache, "SMALL", 1 << 30)
    memory = data.load()
    assert isinstance(disk.train, CachedSet)
    assert list(disk.train) == memory.train
    assert list(disk.valid) == memory.valid
    assert digest_pairs(disk) == digest_pairs(memory)
    assert any(pair.alternatives for pair in disk.train) is (ending != "csv")


def started(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *settings: str) -> tuple[Any, Any]:
    """The setups of a recipe with its training set on disk and in memory, which are the same."""
    config, found = run_file.read(path_of(name), [*settings, "training.batch_tokens=64"]), []
    for folder, small in (("disk", 1), ("memory", 1 << 30)):
        monkeypatch.setattr(cache, "SMALL", small)
        with RunDirectory.create(tmp_path / folder) as run:
            found.append(TASKS[config.task].setup(config, run, 1))
    disk, memory = found
    assert (disk.digest, disk.summary, disk.files) == (memory.digest, memory.summary, memory.files)
    assert disk.data.lines() == memory.data.lines()
    batches = list(disk.objective.batches(1))
    assert batches == list(memory.objective.batches(1))
    workers = pickle.loads(pickle.dumps(disk.objective)), memory.objective
    for batch in batches[:3]:
        one, other = (each.batch(1, batch) for each in workers)
        assert vars(one).keys() == vars(other).keys()
        assert str(vars(one)) == str(vars(other))
        if not name.startswith("span"):
            places = ([each.objective.place(index) for index in batch] for each in found)
            assert next(places) == next(places)
    return disk, memory


@pytest.mark.parametrize("ending", ["jsonl", "conll"])
@pytest.mark.parametrize("given", [True, False], ids=["valid", "held out"])
def test_tagged_texts_on_disk_are_those_in_memory(
    ending: str, given: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path, texts = tmp_path / f"a.{ending}", [each["text"].split() for each in rows()]
    tagged = [[(word, "B-X" if len(word) > 3 else "O") for word in words] for words in texts]
    if ending == "conll":
        path.write_text("\n\n".join("\n".join(map(" ".join, each)) for each in tagged))
    else:
        lists = [dict(zip(("text", "spans"), map(list, zip(*each, strict=True)), strict=True)) for each in tagged]
        path.write_text("".join(json.dumps(each) + "\n" for each in lists))
    settings = [f"data.train={path}", *MODEL, "model.context=8"] + [f"data.valid={path}"] * given
    disk, _ = started("tagging", tmp_path, monkeypatch, *settings)
    assert disk.objective.train.table.folder is not None
    assert len(disk.objective.train) > (60 if given else 54)  # long texts have several parts
    monkeypatch.setattr(cache, "SMALL", 1)
    path.write_text("a B-X\nb\n" if ending == "conll" else '{"text": "a"}\n{"text": "b"}\n')
    faults = {"conll": "a.conll:1: word 2 has 1 columns", "jsonl": "a.jsonl:1: .*name yours with --set data.spans="}
    with pytest.raises(InputError, match=faults[ending]):
        run_file.read(path_of("tagging"), settings).data.load()


@pytest.mark.parametrize(("name", "given"), [("spans", True), ("span-reader", False)])
def test_questions_on_disk_are_those_in_memory(name: str, given: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    texts = [each["text"] for each in rows()]
    records = [
        {"question": f"what is {number % 7}", "context": f"{text} {text}", "answer_text": text.split()[-1]}
        for number, text in enumerate(texts)
    ]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in [*records, records[0] | {"answer_text": "x y z"}]))
    sizes = [*MODEL, "model.context=16"] if name == "spans" else ["model.width=8", "model.embedding=8"]
    settings = [f"data.train={path}", "data.skip_bad=true", *sizes] + [f"data.valid={path}"] * given
    if name == "spans":
        settings.append("longest_question=8")
    disk, memory = started(name, tmp_path, monkeypatch, *settings)
    assert disk.objective.train.table.folder is not None
    assert memory.objective.train.table.folder is None
    monkeypatch.setattr(cache, "SMALL", 1)
    config: Any = run_file.read(path_of(name), [f"data.train={path}", *sizes])
    with pytest.raises(InputError, match=r"a.jsonl:61: the answer 'x y z' is not in the context"):
        config.data.load()


@pytest.mark.parametrize(("table", "given"), [(True, True), (False, False)])
def test_several_targets_on_disk_are_those_in_memory(
    table: bool, given: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    csv(tmp_path / "a.csv")
    for name in ("text", "label", "number"):
        (tmp_path / name).write_text("".join(f"{each[name]}\n" for each in rows()))
    files = str(tmp_path / "a.csv") if table else tuple(str(tmp_path / name) for name in ("text", "label", "number"))
    config = run_file.read(
        path_of("translate-many"), ["data.train=a.csv", "data.languages=[label,number]", "training.batch_tokens=64"]
    )
    data = Multiparallel(
        languages=("label", "number"), train=files, valid=files if given else (), source="text", held_out=0.2
    )
    config = replace(config, data=data)

    def begun(folder: str) -> Any:
        with RunDirectory.create(tmp_path / folder) as run:
            return TASKS[config.task].setup(config, run, 1)

    disk = begun("disk")
    parts = disk.objective.parts
    assert isinstance(data.load()["label"].train, CachedSet)
    monkeypatch.setattr(cache, "SMALL", 1 << 30)
    memory = begun("memory")
    assert memory.digest == disk.digest
    assert memory.summary == disk.summary
    for name, splits in data.load().items():
        assert isinstance(splits.train, list)
        assert len(splits.train) == (60 if given else 48)
        assert list(parts[name].valid) == list(splits.valid)
    assert list(memory.objective.batches(1)) == list(disk.objective.batches(1))
    for name, part in memory.objective.batch(1, [3, 5]).parts.items():
        assert part.target_out.equal(disk.objective.batch(1, [3, 5]).parts[name].target_out)
        assert part.source.equal(disk.objective.batch(1, [3, 5]).parts[name].source)
    assert memory.objective.place(7) == disk.objective.place(7)


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
        patch.setattr(cache, "SMALL", 1 << 30)
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
    assert first.objective.train.table.folder is not None

    def refused(*_: Any) -> Any:
        raise AssertionError("this was done before")

    monkeypatch.setattr(LabelledTables, "stream_rows", refused)
    monkeypatch.setattr("regard.text.Tokenizer.train", refused)
    monkeypatch.setattr(Shard, "write", refused)
    second = begun("second")
    assert second.digest == first.digest
    assert list(second.objective.batches(0)) == list(first.objective.batches(0))
    assert second.objective.place(3) == f"{tmp_path}/a.csv:5"


def test_a_bad_row_of_a_large_file_is_named(tmp_path: Path):
    csv(tmp_path / "a.csv")
    with (tmp_path / "a.csv").open("a") as file:
        file.write("only a text\n")
    with pytest.raises(InputError, match=r"a.csv:62: 1 columns, expected 5 columns as in the first line"):
        LabelledTables(train=str(tmp_path / "a.csv")).load()
    found = LabelledTables(train=str(tmp_path / "a.csv"), skip_bad=True).load()
    assert len(found.train) + len(found.valid) == 60
    assert os.listdir(tmp_path / "cache" / "sets")
