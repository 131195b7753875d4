"""The settings and the report of the benchmark of training."""

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from benchmarks import training, updates
from benchmarks.arithmetic import Products, products_of
from regard.data.batching import PairBatch

SMALL = [([5, 7, 11], [13, 5]), ([7], [5, 11, 7, 13]), ([5, 11], [5])] * 8


def test_drawn_pairs_are_like_multi30ks():
    pairs = training.drawn()
    assert len(pairs) == training.PAIRS
    assert all(13 < mean(len(pair[side]) for pair in pairs) < 15 for side in (0, 1))
    assert all(training.FIRST <= token < training.VOCABULARY for pair in pairs[:101] for side in pair for token in side)
    assert max(len(side) for pair in pairs for side in pair) < training.LONGEST


def test_batches_count_their_target_tokens():
    for batch in training.batches_of(SMALL, 32):
        assert batch.target_tokens == (batch.target_out >= 0).sum() == (batch.target_in != 0).sum()
        assert batch.source.numel() <= 32


@pytest.mark.parametrize(
    "system", ["regard, one-pass LSTM", "regard, Luong GRU", "regard, Transformer", "nn.Transformer"]
)
def test_updates_learn(system: str, monkeypatch: pytest.MonkeyPatch):
    for name, size in {"VOCABULARY": 17, "WIDTH": 8, "HIDDEN": 11, "HEADS": 2, "LAYERS": 1}.items():
        monkeypatch.setattr(updates, name, size)
    gradients: list[Any] = []

    def keep(optimizer: torch.optim.Optimizer, *_: object) -> None:
        gradients.append([each.grad for group in optimizer.param_groups for each in group["params"]])

    [batch, *_] = training.batches_of(SMALL, 64)
    update = updates.SYSTEMS[system]()
    hook = register_optimizer_step_pre_hook(keep)
    for bf16 in (False, True):
        update(batch, bf16)
    hook.remove()
    assert len(gradients) == 2
    assert all(each is not None and each.isfinite().all() for found in gradients for each in found)


class Answering:
    """A worker that takes so long for every update, in a list of who was asked."""

    asked: list[tuple[str, int, str]]

    def __init__(self, system: str, taken: float):
        self.system, self.taken = system, taken

    def seconds(self, number: int, precision: str) -> float:
        self.asked.append((self.system, number, precision))
        return self.taken


def answering(monkeypatch: pytest.MonkeyPatch, taken: dict[str, float]) -> list[tuple[str, int, str]]:
    Answering.asked = []

    @contextmanager
    def workers(systems: list[str], batches: list[PairBatch]) -> Iterator[list[Answering]]:
        yield [Answering(system, taken[system]) for system in systems]

    monkeypatch.setattr(training, "workers", workers)
    return Answering.asked


def test_systems_take_turns(monkeypatch: pytest.MonkeyPatch):
    asked = answering(monkeypatch, {"a": 0.5, "b": 2.0})
    batches = training.batches_of(SMALL, 32)[:2]
    tokens = sum(each.target_tokens for each in batches)
    found = training.rates(["a", "b"], training.Case(1024, "bf16"), batches, rounds=2)
    assert found == {"a": tokens / 1.0, "b": tokens / 4.0}
    assert asked == [("a", 0, "bf16"), ("a", 1, "bf16"), ("b", 0, "bf16"), ("b", 1, "bf16")] * 3


def test_aims_are_costs(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(training, "drawn", lambda: SMALL)
    monkeypatch.setattr(training, "precisions", lambda: ("fp32", "bf16"))
    taken = dict.fromkeys(training.QUICK, 1.0) | {"regard, Transformer": 0.5, "regard, Luong GRU": 0.7}
    answering(monkeypatch, taken)
    found = training.aims()
    assert [aim.met for aim in found] == [False, False, True, True, True, True] * 2
    assert [aim.most for aim in found] == [None] * 7 + [100.0] + [None] * 4
    assert [aim.ratio for aim in found[2:6]] == pytest.approx([2.0, 1.0, 1 / 0.7, 2.0])


def test_products_are_those_of_an_update():
    """A product of two factors has two more behind it, one for the gradient of each."""
    weight, calls = torch.ones(3, 2, requires_grad=True), list[str]()

    def update(batch: PairBatch, bf16: bool) -> None:
        calls.append("update")
        states = batch.source.to(torch.float32).requires_grad_()
        (states[:, :3] @ weight).exp().sum().backward()

    products, [batch, *_] = products_of(update), training.batches_of(SMALL, 32)
    products(batch, False)
    with Products() as kept:
        products(batch, False)
    assert calls == ["update"]
    shapes = [(tuple(a.shape), tuple(b.shape)) for _, (a, b), _ in kept.calls]
    rows = len(batch.source)
    assert sorted(shapes) == sorted([((rows, 3), (3, 2)), ((3, rows), (rows, 2)), ((rows, 2), (2, 3))])


def test_a_process_that_ends_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    told = pytest.raises(SystemExit, match=r"nn\.Transformer ended before it answered, with code 1")
    with told, training.workers(["nn.Transformer"], training.batches_of(SMALL, 32)):
        pass


def test_a_process_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """In place of the interpreter something that takes every update for as long as its number says."""
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho loading\necho ready\nwhile read number precision; do echo $number.5; done\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    with training.workers(["a", "b"], training.batches_of(SMALL, 32)) as running:
        assert [worker.system for worker in running] == ["a", "b"]
        assert [worker.seconds(number, "fp32") for worker in running for number in (3, 7)] == [3.5, 7.5] * 2
    assert all(worker.process.poll() is not None for worker in running)
