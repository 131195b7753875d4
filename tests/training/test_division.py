"""Work that processes divide has the results of one process, bit for bit, and each computes its part only."""

import json
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from accelerate import PartialState

from regard.cli.main import main
from regard.errors import InputError, RunError
from regard.runs.run_file import load
from regard.tasks.options import EvaluationOptions
from regard.training.update import ProcessGroup
from regard.work import compute_batches, divide_among
from tests import forked
from tests.cli.command import environment, tiny
from tests.witness.cases import CASES


class Threads:
    """Several threads in place of processes; each has its own rank."""

    def __init__(self, count: int) -> None:
        self.count, self.values, self.local = count, [None] * count, threading.local()
        self.barrier = threading.Barrier(count, timeout=60)

    @property
    def rank(self) -> int:
        return self.local.rank

    def gather(self, value: Any) -> list[Any]:
        self.values[self.rank] = value
        self.barrier.wait()
        found = list(self.values)
        self.barrier.wait()
        return found

    def each(self, work: Callable[[], Any]) -> list[Any]:
        """What `work` gives, or the error that it raises, in every thread."""
        found: list[Any] = [None] * self.count

        def run(rank: int) -> None:
            self.local.rank = rank
            try:
                with divide_among(self):
                    found[rank] = work()
            except Exception as error:
                found[rank] = error

        threads = [threading.Thread(target=run, args=(rank,)) for rank in range(self.count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return found


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("batches", [0, 1, 4, 11])
def test_each_process_computes_its_part(count: int, batches: int):
    calls: list[int] = []

    def square(number: int) -> int:
        calls.append(number)
        return number**2

    expected = [number**2 for number in range(batches)]
    for found in Threads(count).each(lambda: compute_batches(square, iter(range(batches)))):
        assert found == expected
    assert sorted(calls) == list(range(batches))
    assert compute_batches(square, range(3)) == [0, 1, 4]


def test_an_error_of_one_process_ends_all():
    def refuse(number: int) -> int:
        if number == 3:
            raise InputError("file:3: is bad")
        return number

    one, other = Threads(2).each(lambda: compute_batches(refuse, range(6)))
    assert isinstance(other, InputError)
    assert str(other) == "file:3: is bad"
    assert isinstance(one, RunError)
    assert str(one) == "process 1 failed in its part of the batches, so this one ends too"


RECIPES = [
    *("bert", "captions", "classify", "copy", "dates", "elmo", "few-shot", "language-gpt2", "language-lstm"),
    *("multi-label", "names", "regression", "sorting", "spans", "spoken-digits", "translate-many", "vit"),
]


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
def test_figures_of_every_task(recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "data"
    folder.mkdir()
    options = [*CASES[recipe].options(folder), "--set", "training.steps=1", "--set", "training.warmup=0"]
    assert main(["train", recipe, "--out", str(tmp_path / "run"), *options]) == 0
    run = load(tmp_path / "run")
    if recipe == "bert":  # its case has no test set
        documents = run.read([folder / "documents.txt"], EvaluationOptions())
        evaluate = partial(run.evaluate, documents)
    else:
        evaluate = run.evaluate
    expected = evaluate()
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert {name: value for name, value in result.items() if name.startswith("test/")} == {
        f"test/{name}": value for name, value in expected.items() if recipe != "bert"
    }
    for count in (2, 3):
        for found in Threads(count).each(evaluate):
            assert found == expected


@pytest.mark.slow
def test_two_processes_validate_and_test(tmp_path: Path):
    """The figures of a training by two processes, and of an evaluation by two, are those of one process."""
    out = str(tmp_path / "run")

    def call(count: int, *arguments: str) -> str:
        done = forked.together(count, ("-m", "regard", *arguments), environment())
        assert [code for code, _, _ in done] == [0] * count, done
        return done[0][1]

    call(2, "train", "dates", "--out", out, *tiny(data="{kind: dates, train: 200, valid: 11, test: 400}"))
    one, two = (json.loads(call(count, "evaluate", out, "--json")) for count in (1, 2))
    assert one == two
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert {name: value for name, value in result.items() if name.startswith("test/")} == {
        f"test/{name}": value for name, value in one.items()
    }


@pytest.mark.parametrize(("found", "cpu"), [(["cpu"], True), (["cuda", "cpu"], False)])
def test_processes_of_a_machine_without_accelerators_find_each_other(
    found: list[str], cpu: bool, monkeypatch: pytest.MonkeyPatch
):
    class State(PartialState):
        num_processes, process_index = 2, 1

        def __init__(self, cpu: bool) -> None:
            chosen.append(cpu)

    chosen: list[bool] = []
    monkeypatch.setattr("regard.training.settings.devices", lambda: found)
    monkeypatch.setattr("regard.training.update.PartialState", State)
    everyone = ProcessGroup()
    assert (everyone.count, everyone.rank, chosen) == (2, 1, [cpu])
