"""Faults in training: their messages, and the files that are kept."""

import gc
import os
import random
import signal
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from torch import nn
from torch.utils.data import get_worker_info

from regard.errors import InputError, RunError
from regard.storage.run_folder import RunDirectory
from regard.training.loop import fit
from regard.training.objectives import Loss
from regard.training.settings import devices
from regard.training.snapshot import describe_regrouping, random_state, restore_random_state
from tests.training import toy
from tests.training.test_loop import records, run


class Poisoned(toy.Following):
    """Its loss is multiplied by `factor` in the given calls."""

    def __init__(self, calls: set[int], factor: float) -> None:
        super().__init__()
        self.poisoned, self.factor, self.calls = calls, factor, 0

    def loss(self, model: nn.Module, batch: Any, update: int, carried: Any) -> Loss:
        self.calls += 1
        loss = super().loss(model, batch, update, carried)
        return Loss(loss.total * self.factor, loss.tokens) if self.calls in self.poisoned else loss


@pytest.mark.parametrize("factor", [float("nan"), float("inf")])
def test_one_bad_update_is_skipped(tmp_path: Path, factor: float, capsys: pytest.CaptureFixture[str]):
    model = toy.model()
    result = run(tmp_path / "run", Poisoned({3, 8, 9}, factor), model, maximum_bad_updates=3)
    assert result["steps"] == 24
    assert [record["update"] for record in records(tmp_path / "run", "skipped")] == [3, 8, 9]
    assert records(tmp_path / "run", "skipped")[0]["loss"] is None
    assert all(torch.isfinite(parameter).all() for parameter in model.parameters())
    assert "update 3 skipped: loss" in capsys.readouterr().err


def test_many_bad_updates_end_the_run(tmp_path: Path):
    with pytest.raises(RunError, match=r"in 3 updates in a row, the last 13; the last good checkpoint is of update 10"):
        run(tmp_path / "run", Poisoned({11, 12, 13}, float("nan")), maximum_bad_updates=3)
    assert RunDirectory.open(tmp_path / "run").checkpoints.steps()[-1] == 10


def test_out_of_memory(tmp_path: Path):
    class Huge(toy.Following):
        def loss(self, model: nn.Module, batch: Any, update: int, carried: Any) -> Loss:
            loss = super().loss(model, batch, update, carried)
            if loss.tokens and (tmp_path / "run" / "checkpoints" / "step-00000003").exists():
                torch.empty(1 << 52)
            return loss

    with pytest.raises(RunError, match=r"3 examples, the longest [35]; lower batch_tokens \(now 3072\)") as caught:
        run(tmp_path / "run", Huge())
    assert "\n" not in str(caught.value)
    newest = RunDirectory.open(tmp_path / "run").checkpoints.newest()
    assert newest is not None
    assert newest.step == 3


class Broken(toy.Following):
    """Example 5 cannot be read; example 7's worker dies."""

    def __init__(self, dies: bool) -> None:
        super().__init__()
        self.dies = dies

    def place(self, index: int) -> str:
        return f"train.tsv:{index + 1}"

    def batch(self, epoch: int, indices: list[int]) -> Any:
        if not self.dies and 5 in indices:
            raise KeyError("no such column")
        if self.dies and 7 in indices and get_worker_info() is not None:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().batch(epoch, indices)


@pytest.mark.parametrize("workers", [0, 2])
def test_an_example_that_cannot_be_read(tmp_path: Path, workers: int):
    with pytest.raises(RunError, match=r"^example 5 \(train.tsv:6\) cannot be .*KeyError: 'no such column'") as caught:
        run(tmp_path / "run", Broken(dies=False), workers=workers)
    assert "test_faults.py:" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_worker_that_dies(tmp_path: Path):
    with pytest.raises(RunError, match=r"a worker died while it prepared the batch of examples .*\b7\b.*train.tsv"):
        run(tmp_path / "run", Broken(dies=True), workers=2)


def test_fewer_batches_than_processes(tmp_path: Path):
    with pytest.raises(InputError, match="epoch 0 has 0 batches for 1 processes"):
        run(tmp_path / "run", toy.Following(0))


def test_another_number_of_processes(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """A checkpoint of 3 processes, behind 2 x 3 of 7 batches, on one: it goes on with the seventh, and says so."""
    run(tmp_path / "run", steps=2, validate_every=0, checkpoint_every=1)
    directory = RunDirectory.create(tmp_path / "run", resume=True)
    newest = directory.checkpoints.newest()
    assert newest is not None
    groups = {group: newest.tensors(group) for group in ("model", "optimizer")}
    counters = {**newest.state["counters"], "update": 3, "index": 2}
    directory.checkpoints.save(3, groups, {**newest.state, "processes": 3, "counters": counters})
    task = toy.Following()
    built: list[tuple[int, list[int]]] = []
    build = task.batch
    task.batch = lambda epoch, indices: (built.append((epoch, indices)), build(epoch, indices))[1]
    with directory:
        fit(toy.model(), task, toy.settings(steps=5), directory, resume=True)
    assert built == [(0, task.batches(0)[6]), (1, task.batches(1)[0])]


def test_what_another_number_of_processes_changes():
    before = {"processes": 4, "accumulate": 1}
    line = describe_regrouping(before, 2, 1)
    assert line.startswith(
        "the checkpoint is of 4 processes and there are 2: examples keep their order, and an update has"
    )
    assert "2 batches instead of 4, so the weights differ; training.accumulate=2 with --allow-change keeps 4" in line
    assert "accumulate" not in describe_regrouping(before, 3, 1)
    assert describe_regrouping(before, 2, 2).endswith(
        "an update has 4 batches as before; rounding and random numbers differ"
    )


def test_a_device_that_is_not_there(tmp_path: Path):
    absent = next(name for name in ("cuda", "mps", "xpu") if name not in devices())
    with pytest.raises(InputError, match=rf"device '{absent}' is not available here; choose from: auto, .*cpu"):
        run(tmp_path / "run", device=absent)


def test_nothing_piles_up(tmp_path: Path):
    counts: list[tuple[int, int]] = []

    class Counting(toy.Following):
        def validate(self, model: nn.Module) -> dict[str, float]:
            gc.collect()
            live = sum(issubclass(type(item), torch.Tensor) for item in gc.get_objects())
            counts.append((live, psutil.Process().memory_info().rss))
            return super().validate(model)

    run(tmp_path / "run", Counting(), steps=1000, validate_every=200, checkpoint_every=0, average_decay=0.9)
    assert counts[-1][0] <= counts[1][0]
    assert counts[-1][1] - counts[1][1] < 8 << 20


def test_the_random_states_come_back():
    def draw() -> tuple[float, float, float]:
        return random.gauss(0, 1), float(np.random.normal()), float(torch.randn(()))

    draw()
    state = random_state(torch.device("cpu"))
    first = draw()
    assert draw() != first
    restore_random_state(state, torch.device("cpu"))
    assert draw() == first
