"""How long training takes: updates or epochs, the warm-up, and early stopping, which is on by default."""

import io
import sys
from pathlib import Path
from typing import Literal

import pytest
from torch import nn

from regard.errors import InputError
from regard.runs import run_file
from regard.runs.recipes import path_of
from regard.training import progress
from regard.training.progress import Progress
from regard.training.settings import Selection, Training, Validated
from regard.work import checkpoint
from tests.training import toy
from tests.training.test_loop import run


def training(*overrides: str, recipe: str = "translate-rnn") -> Training:
    """The settings of a recipe with these options."""
    files = ["data.train=[a, b]", "data.valid=[a, b]"]
    return run_file.read(path_of(recipe), [*files, *(f"training.{each}" for each in overrides)]).training


def test_lower_steps_shorten_the_warm_up_to_a_tenth():
    own = training()
    assert own.warmup > 10
    assert training("steps=50").warmup == 5
    assert training("steps=5").warmup == 1
    assert training(f"steps={own.steps - 1}").warmup == own.warmup
    assert training(f"steps={10 * own.steps}").warmup == own.warmup


def test_a_warm_up_of_an_option_stays():
    assert training("steps=50", "warmup=20").warmup == 20
    with pytest.raises(InputError) as refused:
        training("steps=5", "warmup=200")
    assert "warmup is 200, and training ends after 5 updates (steps); lower warmup, such as to 1, or raise steps" in (
        str(refused.value)
    )


def test_a_shorter_warm_up_is_said(caplog: pytest.LogCaptureFixture):
    with caplog.at_level("INFO", "regard"):
        training("steps=50")
        training("steps=50", "warmup=20")
    lowered = [message for message in caplog.messages if "lowered" in message]
    assert lowered == ["training.warmup=5, to fit the lowered training.steps"]


def test_epochs_in_place_of_steps():
    assert training("epochs=2.5").epochs == 2.5
    settings = Training(epochs=2.5, warmup=400, accumulate=2).with_epochs_as_steps(100)
    assert (settings.steps, settings.warmup) == (125, 12)
    assert settings.describe() == "125 updates (2.5 epochs), 12 of them warm-up; validation at the end"
    with pytest.raises(InputError, match=r"training\.steps and training\.epochs are both set; choose one"):
        training("steps=50", "epochs=2")
    with pytest.raises(ValueError, match="teacher_forcing_end changes by updates"):
        Training(epochs=1.0, teacher_forcing_end=0.5)


def test_an_option_of_steps_replaces_epochs_of_the_file(tmp_path: Path):
    path = tmp_path / "own.yaml"
    text = path_of("dates").read_text(encoding="utf-8").replace("steps: 700", "epochs: 3")
    path.write_text(text, encoding="utf-8")
    assert run_file.read(path).training.epochs == 3
    changed = run_file.read(path, ["training.steps=50"]).training
    assert (changed.epochs, changed.steps) == (None, 50)


def waited(values: list[float], settings: Training) -> bool:
    """Whether training ends after validations with these values."""
    selection = Selection()
    for update, value in enumerate(values):
        selection.observe(Validated(update, value, {}), settings, higher_is_better=True)
    return selection.exhausted(settings)


def test_training_ends_early_by_default_once_the_metric_has_changed():
    settings = Training()
    assert not waited([0.0] * 9, settings)  # an exact match that has not left zero
    assert not waited([1.0, 2.0, 1.0, 1.0, 1.0, 1.0], settings)
    assert waited([1.0, 2.0, 1.0, 1.0, 1.0, 1.0, 2.0], settings)
    assert not waited([2.0] + [1.0] * 9, Training(patience=0))
    assert waited([100.0] * 6, settings)  # perfect from the first validation on


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_a_schedule_that_falls_to_zero_runs_to_its_end_by_default(schedule: Literal["linear", "cosine"]):
    falling = [2.0] + [1.0] * 9
    assert not waited(falling, Training(schedule=schedule))
    assert "ends early" not in Training(schedule=schedule).describe()
    assert waited(falling, Training(schedule=schedule, patience=3))
    assert waited(falling, Training(schedule="inverse-square-root"))


def test_the_end_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    class Worse(toy.Following):
        validations = 0

        def validate(self, model: nn.Module) -> dict[str, float]:
            self.validations += 1
            return {"accuracy": -float(self.validations)}

    monkeypatch.setattr(sys, "stderr", stream := io.StringIO())
    assert run(tmp_path / "run", Worse(), validate_every=2, patience=None)["steps"] == 12
    assert "accuracy has not improved in 5 validations: training ends (training.patience)" in stream.getvalue()


def test_the_plan_names_validation_and_the_early_end():
    assert Training(steps=9000, warmup=30).describe() == (
        "9,000 updates, 30 of them warm-up; validation every 1,000; it ends early after 5 without improvement"
    )
    assert Training(patience=0).describe() == "10,000 updates, 0 of them warm-up; validation every 1,000"


def test_a_long_validation_shows_that_it_goes_on(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stderr", stream := io.StringIO())
    now = iter([0.0, 0.0, 0.0, 20.0, 31.0, 40.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(now))
    with Progress(9, interval=1).show_elapsed("validating"):
        for _ in range(3):
            checkpoint()
    assert stream.getvalue() == "validating, 0:31\n"
