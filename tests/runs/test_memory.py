"""Training on rows in memory: lists of mappings, data frames, data sets that yield mappings."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import regard
from regard.data.records import Records, records_of
from regard.errors import InputError
from regard.runs import run_file

MODEL = {"name": "bert", "layers": 1, "width": 8, "heads": 2, "hidden": 8, "context": 16}
TINY = {"steps": 2, "warmup": 0, "batch_tokens": 64, "validate_every": 0, "precision": "fp32"}
ROWS = [{"review": f"it is {word} {n}", "stars": n % 2} for n in range(20) for word in ("good", "bad")]


class Table:
    """What pandas and polars have in common."""

    def __init__(self, rows: list[dict[str, Any]]):
        self.content = {name: np.array([row[name] for row in rows], dtype=object) for name in rows[0]}
        self.columns = list(self.content)

    def __getitem__(self, name: str) -> Any:
        return self.content[name]


class Labels:
    names = ("bad", "good")


class Set:
    """What `datasets` has: rows, and the names of classes."""

    features: ClassVar[dict[str, Any]] = {"review": None, "stars": Labels()}

    def __len__(self) -> int:
        return len(ROWS)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(ROWS)


def test_what_holds_records():
    assert records_of(ROWS) is ROWS
    assert records_of(Table(ROWS)) == ROWS
    named = records_of(Set())
    assert named is not None
    assert [each["stars"] for each in named[:3]] == ["bad", "bad", "good"]
    for other in ("a.csv", {"train": "a.csv"}, ["a.txt", "b.txt"], [], None, 3, np.zeros((2, 2)), iter(ROWS)):
        assert records_of(other) is None


def trained(data: Any, folder: Path, **settings: Any) -> Any:
    kept: dict[str, Any] = {"tokenizer": {"kind": "word", "size": 50}, "model": MODEL, "training": TINY}
    return regard.train("classify", folder, data=data, **kept | settings)


@pytest.mark.parametrize("rows", [Table(ROWS), Set()], ids=["frame", "set"])
def test_training_and_evaluation(rows: Any, tmp_path: Path):
    columns = {"text": "review", "label": "stars"}
    run = trained({"train": rows, "test": ROWS[:4] if isinstance(rows, Table) else rows, **columns}, tmp_path / "run")
    assert tuple(run.outputs.labels) == (("0", "1") if isinstance(rows, Table) else ("bad", "good"))
    assert set(run.evaluate()) == set(run.evaluate(rows)) == {"accuracy", "macro-f1"}
    saved = regard.load(tmp_path / "run")
    assert saved.config.data.train == "train.memory"
    with pytest.raises(InputError, match=r"test.memory: were rows in memory, which are not saved with a run"):
        saved.evaluate()
    assert run_file.read(tmp_path / "run" / "config.yaml") == saved.config


def test_resuming_with_the_same_rows_and_with_others(tmp_path: Path):
    rows = [{"text": each["review"], "label": str(each["stars"])} for each in ROWS]
    trained(rows, tmp_path / "run")
    longer: dict[str, Any] = {"training": TINY | {"steps": 4}}
    with pytest.raises(InputError, match=r"training.steps: 2 in the run, 4 now"):
        trained(rows, tmp_path / "run", resume=True, **longer)
    with pytest.raises(InputError, match="cannot resume: data: "):
        trained(rows[:-2], tmp_path / "run", resume=True)
    trained(rows, tmp_path / "run", resume=True)


def test_the_kind_of_data_follows_the_rows(tmp_path: Path):
    rows = [{"source": f"{n}", "target": f"{n} {n}"} for n in range(20)]
    model = {"name": "bahdanau", "embedding": 4, "width": 4, "attention": 4, "maxout": 4}
    run = regard.train("dates", tmp_path / "run", data=rows, model=model, training=TINY | {"batch_tokens": 32})
    assert (run.config.data.kind, run.predict(["3"])[0].text is not None) == ("table", True)


def test_rows_that_do_not_fit(tmp_path: Path):
    with pytest.raises(InputError, match=r"train.memory:1: no column 'text' and 'label', there are"):
        trained(ROWS, tmp_path / "run")
    with pytest.raises(InputError, match=r"train.memory:2: column 'text' is float, expected text"):
        trained([{"text": "a", "label": "b"}, {"text": float("nan"), "label": "b"}], tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert str(Records("a", ROWS)) == "a.memory"
