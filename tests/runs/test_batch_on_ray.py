"""Batch prediction on a Ray cluster of two nodes on this machine, of which one is killed."""

import importlib
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from regard.data.inputs import RawRow, RowReader
from regard.errors import InputError
from regard.runs.batch_job import Job, Request, begin
from regard.runs.batch_worker import run_job, run_on_ray

ray = pytest.importorskip("ray")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
ROWS = 200


class Slow:
    """A worker that takes a while for each row."""

    batch_size = 8

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def example(self, row: RawRow, place: str) -> str:
        assert isinstance(row.content, str)
        if row.content == "bad":
            raise InputError(f"{place}: is bad")
        return row.content

    def records(self, examples: Sequence[str], rows: Sequence[RawRow]) -> list[dict[str, Any]]:
        time.sleep(self.seconds * len(examples))
        return [{"text": each, "length": len(each)} for each in examples]


@pytest.fixture
def cluster() -> Iterator[Any]:
    found = importlib.import_module("ray.cluster_utils").Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    found.add_node(num_cpus=1)
    ray.init(address=found.address, log_to_driver=False)
    yield found
    ray.shutdown()
    found.shutdown()


def job(folder: Path, lines: Sequence[str]) -> Job:
    folder.mkdir()
    source = folder / "in.txt"
    source.write_text("\n".join(lines) + "\n")
    request = Request("predict", folder / "run", {}, [str(source)], RowReader({"text": "text"}), "jsonl", 10)
    return begin(folder / "out", request)


def content(the_job: Job) -> list[str]:
    return [line for part in sorted(the_job.folder.glob("part-*")) for line in part.read_text().splitlines()]


def test_a_node_that_is_killed(cluster: Any, tmp_path: Path):
    lines = [f"{'x' * (number % 17)} {number}" for number in range(ROWS)]
    alone = job(tmp_path / "alone", lines)
    run_job(alone, Slow(0))
    shared = job(tmp_path / "shared", lines)
    node = next(each for each in cluster.list_all_nodes() if not each.is_head())

    def kill() -> None:
        while len(list(shared.folder.glob("part-*"))) < 6:
            time.sleep(0.05)
        cluster.remove_node(node, allow_graceful=False)

    killer = threading.Thread(target=kill)
    killer.start()
    totals = run_on_ray(shared, partial(Slow, 0.05))
    killer.join()
    assert (totals["rows in"], totals["rows out"], totals["parts"]) == (ROWS, ROWS, ROWS // 10)
    here, there = (content(each) for each in (alone, shared))
    assert [line.replace("/alone/", "/shared/") for line in here] == there


def test_a_bad_row_is_one_line(cluster: Any, tmp_path: Path):
    the_job = job(tmp_path / "bad", [*map(str, range(25)), "bad", "27"])
    with pytest.raises(InputError, match=r"in.txt:26: is bad; correct it, or leave such records out"):
        run_on_ray(the_job, partial(Slow, 0))
    assert not the_job.manifest.exists()
