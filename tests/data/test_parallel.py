"""Parts that processes of their own compute: in order, with their errors, and without any left behind."""

import multiprocessing
import os
import signal
from pathlib import Path

import pytest

from regard.data import shards
from regard.data.shards import map_in_processes
from regard.errors import InputError, RunError


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shards, "count_workers", lambda: 2)


def test_results_are_in_order_and_of_other_processes():
    found = list(map_in_processes(lambda number: (number, os.getpid()), range(5)))
    assert [number for number, _ in found] == [0, 1, 2, 3, 4]
    assert len({process for _, process in found} - {os.getpid()}) == 5


def test_one_part_is_computed_here(monkeypatch: pytest.MonkeyPatch):
    assert list(map_in_processes(lambda number: os.getpid(), range(1))) == [os.getpid()]
    monkeypatch.setattr(shards, "count_workers", lambda: 1)
    assert list(map_in_processes(lambda number: os.getpid(), range(2))) == [os.getpid()] * 2


def test_an_error_is_that_of_the_first_part_that_fails():
    def compute(number: int) -> int:
        if number > 1:
            raise InputError(f"file:{number}: is bad")
        return number

    found = map_in_processes(compute, range(5))
    assert [next(found), next(found)] == [0, 1]
    with pytest.raises(InputError, match=r"^file:2: is bad$"):
        next(found)
    assert not multiprocessing.active_children()


def test_a_process_that_is_ended():
    with pytest.raises(RunError, match=r"was ended \(exit code -9\); was the memory too small\?"):
        list(map_in_processes(lambda number: os.kill(os.getpid(), signal.SIGKILL), range(3)))


def test_nothing_is_computed_for_a_reader_that_has_left(tmp_path: Path):
    found = map_in_processes(lambda number: (tmp_path / str(number)).write_text("x"), range(9))
    next(found)
    found.close()  # pyright: ignore[reportAttributeAccessIssue]
    assert not multiprocessing.active_children()
    assert len(list(tmp_path.iterdir())) <= 3
