"""Services that follow a run, with modules in the place of their packages."""

import importlib.machinery
import importlib.util
import logging
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from accelerate import PartialState

from regard.errors import InputError, RunError
from regard.storage.run_folder import RunDirectory
from regard.training.progress import Metrics, check_tracker
from regard.training.settings import Training
from tests.cli.command import tiny


class Recorded:
    """What a service received."""

    def __init__(self, fails: str = "") -> None:
        self.began: list[Any] = []
        self.logged: list[tuple[int | None, dict[str, Any]]] = []
        self.settings: dict[str, Any] = {}
        self.ended, self.fails = 0, fails

    def begin(self, **names: Any) -> "Recorded":
        if self.fails == "init":
            raise OSError("no network")
        self.began.append(names)
        return self

    def log(self, values: dict[str, Any], step: int | None = None) -> None:
        if self.fails == "log":
            raise OSError("no\nnetwork")
        self.logged.append((step, values))

    def keep(self, values: dict[str, Any], **_: Any) -> None:
        self.settings |= values

    def end(self) -> None:
        self.ended += 1

    finish = end


def wandb(recorded: Recorded) -> ModuleType:
    module: Any = ModuleType("wandb")
    module.init, module.config = recorded.begin, SimpleNamespace(update=recorded.keep)
    return module


def mlflow(recorded: Recorded) -> ModuleType:
    module: Any = ModuleType("mlflow")
    module.search_experiments, module.create_experiment = lambda **_: [], lambda **_: "7"
    module.start_run, module.end_run = recorded.begin, recorded.end
    module.log_params, module.log_metrics = recorded.keep, recorded.log
    limits = SimpleNamespace(MAX_PARAM_VAL_LENGTH=500, MAX_PARAMS_TAGS_PER_BATCH=100)
    module.utils = SimpleNamespace(validation=limits)
    return module


MODULES = {"wandb": wandb, "mlflow": mlflow}


def installed(name: str, monkeypatch: pytest.MonkeyPatch, fails: str = "") -> Recorded:
    module = MODULES[name](recorded := Recorded(fails))
    module.__spec__ = importlib.machinery.ModuleSpec(name, None)
    monkeypatch.setitem(sys.modules, name, module)
    return recorded


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[RunDirectory]:
    PartialState(cpu=True)
    with RunDirectory.create(tmp_path / "first") as directory:
        yield directory


@pytest.mark.parametrize("name", MODULES)
def test_a_service_follows_the_records(name: Any, directory: RunDirectory, monkeypatch: pytest.MonkeyPatch):
    recorded = installed(name, monkeypatch)
    metrics = Metrics(directory, Training(tracker=name, tensorboard=False, learning_rate=3e-4))
    metrics.open_trackers()
    metrics.write("training", 50, {"loss": 2.0})
    metrics.write("validation", 60, {"bleu": 31.5})
    metrics.close()
    assert recorded.logged == [(50, {"training/loss": 2.0}), (60, {"validation/bleu": 31.5})]
    assert "first" in recorded.began[0].values()
    assert "regard" in recorded.began[0].values() or recorded.began[0]["experiment_id"] == "7"
    assert (recorded.settings["learning_rate"], recorded.ended) == (3e-4, 1)
    assert not (directory.path / "tensorboard").exists()


def test_a_service_that_fails_does_not_end_the_run(
    directory: RunDirectory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    installed("wandb", monkeypatch, fails="log")
    metrics = Metrics(directory, Training(tracker="wandb", tensorboard=False))
    metrics.open_trackers()
    with caplog.at_level(logging.WARNING):
        metrics.write("training", 50, {"loss": math.inf})
        metrics.write("training", 100, {"loss": 1.0})
    assert caplog.messages == ["training.tracker wandb failed (OSError: no network); the run goes on without it"]
    assert len((directory.path / "metrics.jsonl").read_text().splitlines()) == 2


def test_a_service_that_cannot_start(directory: RunDirectory, monkeypatch: pytest.MonkeyPatch):
    installed("mlflow", monkeypatch, fails="init")
    with pytest.raises(RunError, match=r"training\.tracker mlflow cannot start \(OSError: no network\); see its sett"):
        Metrics(directory, Training(tracker="mlflow")).open_trackers()


@pytest.mark.parametrize("name", ["wandb", "tensorboard"])
def test_a_package_that_is_absent(name: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match=rf"training\.tracker is {name}, whose package is not installed: pip install"):
        check_tracker(name)


def test_a_run_with_its_service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, regard: Any):
    recorded = installed("wandb", monkeypatch)
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    settings = tiny(training__tracker="wandb", training__log_every="1")
    code, _, errors = regard("train", "dates", "--out", str(tmp_path / "dates"), *settings)
    assert code == 0, errors
    assert [step for step, values in recorded.logged if "training/loss" in values] == [1, 2, 3]
    assert any("validation/exact-match" in values for _, values in recorded.logged)
    assert recorded.ended == 1
    read = accumulator.EventAccumulator(str(tmp_path / "dates" / "tensorboard")).Reload()
    assert len(read.Scalars("training/loss")) == 3


def test_a_run_is_refused_before_training(tmp_path: Path, regard: Any):
    if importlib.util.find_spec("mlflow"):
        pytest.skip("mlflow is installed")
    arguments = ["dates", "--out", str(tmp_path / "run"), *tiny(training__tracker="mlflow")]
    code, _, errors = regard("train", *arguments)
    assert (code, errors) == (
        2,
        "regard: training.tracker is mlflow, whose package is not installed: pip install mlflow, or leave it out\n",
    )
    assert not (tmp_path / "run").exists()
