"""Batch prediction on a Ray cluster of two nodes on this machine, of which one is killed."""

import importlib
import json
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from regard.data.inputs import RawRow, RowReader
from regard.errors import InputError, RunError
from regard.runs.batch_prediction import Job, Request, Worker, begin, run_job, run_on_ray

ray = pytest.importorskip("ray")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
ROWS = 200


def load(seconds: float) -> Worker:
    """A worker that takes a while for each row."""

    def example(row: RawRow, place: str) -> str:
        assert isinstance(row.content, str)
        if row.content == "bad":
            raise InputError(f"{place}: is bad")
        if row.content == "full":
            raise RunError("the disk is full")
        return row.content

    def records(examples: Sequence[str], rows: Sequence[RawRow]) -> list[dict[str, Any]]:
        time.sleep(seconds * len(examples))
        return [{"text": text, "length": len(text)} for text in examples]

    return Worker(example, records, 8)


@pytest.fixture
def cluster() -> Iterator[Any]:
    cluster = importlib.import_module("ray.cluster_utils").Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def job(folder: Path, lines: Sequence[str]) -> Job:
    folder.mkdir(exist_ok=True)
    source = folder / "in.txt"
    source.write_text("\n".join(lines) + "\n")
    request = Request("predict", folder / "run", {}, [str(source)], RowReader({"text": "text"}), 10)
    return begin(folder / "out", request)


def content(job: Job) -> list[str]:
    return [line for part in sorted(job.folder.glob("part-*")) for line in part.read_text().splitlines()]


def test_a_node_that_is_killed(cluster: Any, tmp_path: Path):
    lines = [f"{'x' * (number % 17)} {number}" for number in range(ROWS)]
    alone = job(tmp_path / "alone", lines)
    run_job(alone, load(0))
    shared = job(tmp_path / "shared", lines)
    node = next(node for node in cluster.list_all_nodes() if not node.is_head())

    def kill() -> None:
        while len(list(shared.folder.glob("part-*"))) < 6:
            time.sleep(0.05)
        cluster.remove_node(node, allow_graceful=False)

    killer = threading.Thread(target=kill)
    killer.start()
    totals = run_on_ray(shared, partial(load, 0.05))
    killer.join()
    assert (totals["rows in"], totals["rows out"], totals["parts"]) == (ROWS, ROWS, ROWS // 10)
    assert [line.replace("/alone/", "/shared/") for line in content(alone)] == content(shared)


def test_errors_are_one_line_and_paths_relative(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    lines = list(map(str, range(25)))
    bad, full = job(Path("bad"), [*lines, "bad", "27"]), job(Path("full"), [*lines, "full", "27"])
    with pytest.raises(InputError) as caught:
        run_on_ray(bad, partial(load, 0))
    assert str(caught.value).startswith("bad/in.txt:26: is bad; correct it, or leave such records out with --skip-bad")
    with pytest.raises(RunError, match=r"^the disk is full$"):
        run_on_ray(full, partial(load, 0))
    assert not (bad.folder / "manifest.json").exists()
    good = job(Path("good"), lines)
    assert run_on_ray(good, partial(load, 0))["rows out"] == 25
    assert [json.loads(line)["text"] for line in content(good)] == lines
