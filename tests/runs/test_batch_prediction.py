"""Batch prediction: every row once and in its order, whoever computes it, and again only where it must be."""

import errno
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from regard.data.inputs import RawRow, RowReader
from regard.errors import InputError, RunError
from regard.runs.batch_prediction import Job, Predictor, Request, begin, run_job
from regard.storage import atomic

LINES = ["a bb", "ccc", "d", "", "eeeee f", "g", "hh", "iiii", "j k", "l", "mm"]


@dataclass
class Lengths:
    """A worker whose record has the length of a text; it keeps what it computed together."""

    batch_size: int = 3
    batches: list[list[str]] = field(default_factory=list)

    def example(self, row: RawRow, place: str) -> str:
        text = row.content if isinstance(row.content, str) else row.content["text"]
        if text == "unreadable":
            raise InputError(f"{place}: cannot be read")
        return text

    def build(self) -> Predictor:
        return Predictor(self.example, self.records, self.batch_size)

    def records(self, examples: Sequence[str], rows: Sequence[RawRow]) -> list[dict[str, Any]]:
        if any(len(each) > 100 for each in examples):
            raise InputError("text 1: is too long")
        self.batches.append(list(examples))
        return [{"text": each, "length": len(each), "nested": [len(each)]} for each in examples]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text("\n".join(LINES) + "\n")
    return path


def job(folder: Path, *inputs: Path, **more: Any) -> Job:
    settings = {"part_rows": 4, "settings": {}, "verb": "predict"} | more
    return begin(folder / "out", Request(run=folder / "run", inputs=list(map(str, inputs)), reader=READER, **settings))


READER = RowReader({"text": "text"})


def written(folder: Path) -> list[dict[str, Any]]:
    parts = sorted((folder / "out").glob("part-*.jsonl"))
    return [json.loads(line) for part in parts for line in part.read_text(encoding="utf-8").splitlines()]


def test_every_row_in_its_order(source: Path, tmp_path: Path):
    worker = Lengths()
    totals = run_job(job(tmp_path, source), worker.build())
    assert totals == {
        "rows in": 11, "rows out": 11, "skipped": 0, "parts": 3, "manifest": str(tmp_path / "out" / "manifest.json")
    }  # fmt: skip
    found = written(tmp_path)
    assert [each["text"] for each in found] == LINES
    assert [each["place"] for each in found] == [f"{source}:{number}" for number in range(1, 12)]
    assert [len(batch) for batch in worker.batches] == [3, 1, 3, 1, 3]
    assert worker.batches[0] == ["", "d", "ccc"]  # by length
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert [each["rows"] for each in manifest["parts"]] == [4, 4, 3]
    for each in manifest["parts"]:
        content = (tmp_path / "out" / each["name"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == each["sha256"]


def test_a_restart_computes_what_is_missing(source: Path, tmp_path: Path):
    run_job(job(tmp_path, source), Lengths().build())
    before, out = written(tmp_path), tmp_path / "out"
    again = Lengths()
    run_job(job(tmp_path, source), again.build())
    assert again.batches == []
    (out / "part-000001.jsonl").unlink()
    (out / "part-000002.jsonl").unlink()
    run_job(job(tmp_path, source), again.build())
    assert sorted(chain(*again.batches)) == sorted(LINES[4:])
    assert written(tmp_path) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"part_rows": 5}, "part_rows was 4, now 5"),
        ({"settings": {"beam": 3}}, 'settings was {}, now {"beam": 3}'),
        ({"verb": "embed"}, 'verb was "predict", now "embed"'),
        ({"skip_bad": True}, "skip_bad was false, now true"),
    ],
)
def test_the_output_folder_of_another_job(change: Mapping[str, Any], message: str, source: Path, tmp_path: Path):
    run_job(job(tmp_path, source), Lengths().build())
    with pytest.raises(InputError) as caught:
        job(tmp_path, source, **change)
    out = tmp_path / "out"
    assert str(caught.value) == f"{out}: has predictions of another job: {message}; choose another --output"


def test_other_inputs_and_changed_ones(source: Path, tmp_path: Path):
    run_job(job(tmp_path, source), Lengths().build())
    other = tmp_path / "other.txt"
    other.write_text("x\n")
    with pytest.raises(InputError, match=r"it had other inputs; choose another --output$"):
        job(tmp_path, source, other)
    with pytest.raises(InputError, match=r"it had other inputs; choose another --output$"):
        job(tmp_path, other)
    source.write_text("\n".join(LINES) + "\nmore\n")
    with pytest.raises(InputError, match=r"the run or an input changed since; choose another --output$"):
        job(tmp_path, source)
    with pytest.raises(InputError, match=r"none.txt: cannot be read \(No such file or directory\)"):
        job(tmp_path, tmp_path / "none.txt")


def test_a_run_that_changed(source: Path, tmp_path: Path):
    (tmp_path / "run").mkdir()
    weights = tmp_path / "run" / "weights.safetensors"
    weights.write_bytes(b"1")
    job(tmp_path, source)
    weights.write_bytes(b"12")
    with pytest.raises(InputError, match=r"another job: the run or an input changed since; choose another --output$"):
        job(tmp_path, source)


def test_a_folder_with_other_files(source: Path, tmp_path: Path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("keep")
    with pytest.raises(InputError, match=r"out: has other files \(mine.txt\); choose another --output$"):
        job(tmp_path, source)
    assert [each.name for each in out.iterdir()] == ["mine.txt"]
    with pytest.raises(InputError, match=r"in.txt: is a file; choose another --output$"):
        begin(source, Request("predict", tmp_path, {}, [str(source)], READER, 3))
    damaged = tmp_path / "damaged" / "job.json"
    damaged.parent.mkdir()
    damaged.write_text("[")
    with pytest.raises(InputError, match=r"job.json: is damaged \(.*\); choose another --output$"):
        begin(damaged.parent, Request("predict", tmp_path, {}, [str(source)], READER, 3))


@pytest.mark.parametrize("bad", ["unreadable", "x" * 101])
def test_a_bad_row_in_a_late_part(bad: str, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    source = tmp_path / "in.txt"
    source.write_text("\n".join([*LINES, bad, *LINES]) + "\n")
    reason = "cannot be read" if bad == "unreadable" else "is too long"
    with pytest.raises(InputError) as caught:
        run_job(job(tmp_path, source), Lengths().build())
    assert str(caught.value).startswith(f"{source}:12: {reason}; correct it, or leave such records out with --skip-bad")
    assert not (tmp_path / "out" / "manifest.json").exists()
    (tmp_path / "2").mkdir()
    totals = run_job(job(tmp_path / "2", source, skip_bad=True), Lengths().build())
    assert (totals["rows in"], totals["rows out"], totals["skipped"]) == (23, 22, 1)
    assert [each["text"] for each in written(tmp_path / "2")] == [*LINES, *LINES]
    assert f"skipped 1 rows (first: {source}:12: {reason})" in caplog.text


def test_a_disk_that_is_full(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    the_job = job(tmp_path, source)

    def full(path: Path) -> None:
        if path.name.startswith("part-000001"):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(atomic, "sync", full)
    with pytest.raises(RunError, match=r"part-000001.jsonl: cannot be written: no space left on the device"):
        run_job(the_job, Lengths().build())
    assert [each["text"] for each in written(tmp_path)] == LINES[:4]
    monkeypatch.undo()
    worker = Lengths()
    run_job(job(tmp_path, source), worker.build())
    assert sorted(chain(*worker.batches)) == sorted(LINES[4:])
    assert [each["text"] for each in written(tmp_path)] == LINES


def test_an_input_that_changes_while_it_is_read(source: Path, tmp_path: Path):
    the_job = job(tmp_path, source)
    source.write_text("only\n")
    with pytest.raises(InputError, match=r"in.txt: has 1 rows from line 1 on, where 4 were counted"):
        run_job(the_job, Lengths().build())
