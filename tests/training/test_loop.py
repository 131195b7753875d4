"""The loop in one process: learning, checkpoints, logs and selection."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from regard.storage.run_folder import RunDirectory
from regard.storage.tensors import read_tensors
from regard.training.loop import fit
from regard.training.objectives import Loss, LossModule
from regard.training.update import BatchStream, Processes, Stop, Stopped, Updater
from tests.training import toy


def run(path: Path, task: Any = None, model: nn.Module | None = None, **changes: Any) -> dict[str, float | int]:
    with RunDirectory.create(path) as directory:
        return fit(toy.model() if model is None else model, task or toy.Following(), toy.settings(**changes), directory)


def test_what_is_global_stays_as_the_caller_had_it(tmp_path: Path):
    threads, model = torch.get_num_threads(), toy.model()
    np.random.seed(5)
    torch.manual_seed(5)
    before = np.random.get_state(legacy=False)["state"]["key"].tolist(), torch.get_rng_state().tolist()
    run(tmp_path / "run", model=model, steps=2, threads=threads + 1)
    assert torch.get_num_threads() == threads
    assert (np.random.get_state(legacy=False)["state"]["key"].tolist(), torch.get_rng_state().tolist()) == before


def records(path: Path, kind: str) -> list[dict[str, Any]]:
    lines = (path / "metrics.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if record["kind"] == kind]


def weights(path: Path) -> dict[str, torch.Tensor]:
    return RunDirectory.open(path).load_tensors("weights.safetensors")


def test_it_learns(tmp_path: Path):
    model = toy.model()
    result = run(tmp_path / "run", model=model, steps=60)
    assert result["accuracy"] == 1
    assert result["parameters"] == 13 * 11 + 11 * 11 + 11
    assert result["steps"] == 60
    assert min(result["seconds"], result["tokens_per_second"]) > 0
    assert torch.equal(weights(tmp_path / "run")["layer.weight"], model.layer.weight)
    losses = [record["loss"] for record in records(tmp_path / "run", "training")]
    assert len(losses) == 15
    assert losses[-1] < losses[0] / 3


def test_the_best_weights_are_chosen_and_few_checkpoints_kept(tmp_path: Path):
    class Worse(toy.Following):
        def validate(self, model: nn.Module) -> dict[str, float]:
            return {"accuracy": -abs(10.0 - 5 * (self.validations_made()))}

        def validations_made(self) -> int:
            self.validations += 1
            return self.validations

    result = run(tmp_path / "run", Worse(), checkpoint_every=0)
    directory = RunDirectory.open(tmp_path / "run")
    assert result["accuracy"] == 0  # the second validation's
    assert directory.checkpoints.steps() == [10, 20, 24]
    folder = tmp_path / "run" / "checkpoints" / "step-00000010"
    assert torch.equal(
        read_tensors(folder / "model.safetensors")["layer.bias"], weights(tmp_path / "run")["layer.bias"]
    )


def test_the_moving_average_is_what_is_validated_and_saved(tmp_path: Path):
    seen: list[torch.Tensor] = []

    class Watching(toy.Following):
        def validate(self, model: nn.Module) -> dict[str, float]:
            assert not model.training
            assert not torch.is_grad_enabled()
            seen.append(model.get_parameter("layer.weight").detach().clone())
            return super().validate(model)

    run(tmp_path / "run", Watching(), average_decay=0.9, keep_best=0)
    assert torch.equal(weights(tmp_path / "run")["layer.weight"], seen[-1])
    run(tmp_path / "plain", keep_best=0)
    assert not torch.equal(weights(tmp_path / "plain")["layer.weight"], seen[-1])


def test_accumulated_batches_weigh_by_their_tokens(tmp_path: Path):
    """The two batches of an update as one batch: the same weights."""

    class Joined(toy.Following):
        def batches(self, epoch: int) -> list[list[int]]:
            single = super().batches(epoch)
            return [[*first, *second] for first, second in zip(single[::2], single[1::2], strict=True)]

        def loss(self, model: nn.Module, batch: Any, update: int, carried: Any) -> Any:
            rows = [super(Joined, self).loss(model, part, update, carried) for part in batch.parts]
            return toy.Loss(sum((row.total for row in rows), torch.zeros(())), sum(row.tokens for row in rows))

        def batch(self, epoch: int, indices: list[int]) -> Any:
            return Parts([super().batch(epoch, indices[:3]), super().batch(epoch, indices[3:])])

    class Parts:
        def __init__(self, parts: list[toy.ToyBatch]) -> None:
            self.parts = parts

        def to(self, device: torch.device) -> "Parts":
            return self

    common: dict[str, Any] = {"keep_best": 0, "steps": 9, "clip": 0.5, "weight_decay": 0.1}
    run(tmp_path / "one", Joined(6), toy.model(dropout=0.0), **common)
    run(tmp_path / "two", toy.Following(6), toy.model(dropout=0.0), accumulate=2, **common)
    for name, tensor in weights(tmp_path / "one").items():
        torch.testing.assert_close(weights(tmp_path / "two")[name], tensor)


def test_clipping_gives_the_norm_asked_for(tmp_path: Path):

    settings, task, model = toy.settings(clip=0.25), toy.Following(), toy.model()
    here = Processes(settings)
    norms: list[float] = []

    class Watching(torch.optim.SGD):
        def step(self, closure: Any = None) -> None:
            norms.append(float(nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])))

    updater = Updater(LossModule(model, task), Watching(model.parameters()), settings, here, Stop())
    with BatchStream(task, settings, here) as stream:
        outcome = updater([next(stream)], 1, 0.1)
    assert outcome.norm > 0.25
    assert norms == pytest.approx([0.25])


def test_resuming_a_finished_run_changes_nothing(tmp_path: Path):
    run(tmp_path / "run")
    before = toy.digest(tmp_path / "run")
    with RunDirectory.create(tmp_path / "run", resume=True) as directory:
        result = fit(toy.model(), toy.Following(), toy.settings(), directory, resume=True)
    assert result["steps"] == 24
    assert toy.digest(tmp_path / "run") == before


def test_records_after_the_checkpoint_are_written_once(tmp_path: Path):
    with RunDirectory.create(tmp_path / "run") as directory, pytest.raises(ValueError, match="accident"):
        fit(toy.model(), toy.Trouble("raise", 18), toy.settings(), directory)
    assert [record["update"] for record in records(tmp_path / "run", "training")] == [4, 8, 12, 16]
    with RunDirectory.create(tmp_path / "run", resume=True) as directory:
        fit(toy.model(), toy.Following(), toy.settings(), directory, resume=True)
    assert [record["update"] for record in records(tmp_path / "run", "training")] == [4, 8, 12, 16, 20, 24]


def test_the_task_is_told_the_update_across_a_resume(tmp_path: Path):
    first, second = toy.Trouble("terminate", 13), toy.Following()
    with RunDirectory.create(tmp_path / "run") as directory, pytest.raises(Stopped):
        fit(toy.model(), first, toy.settings(), directory)
    with RunDirectory.create(tmp_path / "run", resume=True) as directory:
        fit(toy.model(), second, toy.settings(), directory, resume=True)
    assert first.updates + second.updates == list(range(1, 25))
    third = toy.Following()
    run(tmp_path / "two", third, accumulate=2, steps=5)
    assert third.updates == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


class HungUp(toy.Following):
    """A task whose terminal closes in its third batch."""

    def loss(self, model: nn.Module, batch: toy.ToyBatch, update: int, carried: Any) -> Loss:
        if len(self.updates) == 2:
            os.kill(os.getpid(), signal.SIGHUP)
        return super().loss(model, batch, update, carried)


def test_a_hangup_saves(tmp_path: Path):
    with pytest.raises(Stopped, match="stopped by SIGHUP after update 3, which is saved") as stopped:
        run(tmp_path, HungUp())
    assert stopped.value.exit_code == 129
    assert RunDirectory.open(tmp_path).checkpoints.steps() == [3]


def test_a_hangup_that_nohup_ignores_stops_nothing(tmp_path: Path):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert run(tmp_path, HungUp())["steps"] == 24
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_clock_saves_too(tmp_path: Path):
    changes: dict[str, Any] = {"steps": 7, "validate_every": 0, "checkpoint_every": 0}
    run(tmp_path / "never", checkpoint_minutes=0.0, **changes)
    run(tmp_path / "always", checkpoint_minutes=1e-9, **changes)
    assert RunDirectory.open(tmp_path / "never").checkpoints.steps() == [7]
    assert RunDirectory.open(tmp_path / "always").checkpoints.steps() == [6, 7]
    assert toy.digest(tmp_path / "always") == toy.digest(tmp_path / "never")
    with pytest.raises(Stopped):  # after the third update, whose checkpoint is the stop's
        run(tmp_path / "stopped", HungUp(), checkpoint_minutes=1e-9, **changes)
    assert RunDirectory.open(tmp_path / "stopped").checkpoints.steps() == [2, 3]
