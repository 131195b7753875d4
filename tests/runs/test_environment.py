"""Resuming under another environment: compared, refused or allowed, and written down."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.errors import InputError
from regard.runs import resume
from regard.runs import train as train_module
from regard.runs.recipes import FOLDER
from regard.storage.run_folder import RunDirectory
from regard.training.devices import VARIABLES, choose_threads
from regard.training.settings import Training
from tests.runs.test_interface import Reader, lookup


def train(folder: Path, steps: int, **options: Any) -> None:
    torch.manual_seed(1)
    settings = {"steps": steps, "device": "cpu", "tensorboard": False, "batch_tokens": 32}
    regard.fit(Reader(), lookup(), folder, training=settings, **options)


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    train(tmp_path / "run", 2)
    return tmp_path / "run"


@pytest.mark.parametrize("name", resume.DECISIVE)
def test_another_environment_is_refused_or_allowed(
    begun: Path, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    before = json.loads((begun / "environment.json").read_text())
    now = resume.current_environment
    monkeypatch.setattr(
        train_module, "current_environment", lambda *given: now(*given) | {name: 77 if name == "threads" else "other"}
    )
    other = "77" if name == "threads" else "'other'"
    line = f"environment.{name}: {before[name]!r} in the run, {other} now"
    with pytest.raises(InputError) as refused:
        train(begun, 2, resume=True)
    assert str(refused.value) == f"cannot resume: {line}; undo it or give --allow-change"
    assert json.loads((begun / "environment.json").read_text()) == before
    with caplog.at_level("WARNING", "regard"):
        train(begun, 2, resume=True, allow_change=True)
    assert caplog.messages == [f"resuming with a change: {line}"]
    assert json.loads((begun / "environment.json").read_text()) == before


@pytest.fixture
def three_threads() -> Iterator[None]:
    """PyTorch as it starts with OMP_NUM_THREADS=3."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("three_threads")
def test_threads_are_compared_where_the_setting_is_automatic(begun: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    with pytest.raises(InputError, match=r"environment.threads: 1 in the run, 3 now"):
        train(begun, 2, resume=True)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    train(begun, 2, resume=True)
    assert torch.get_num_threads() == 3  # the number of this process returns after a run


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize(
    ("setting", "variable", "parameters", "began", "expected"),
    [
        (0, None, 10**5, None, 1),
        (0, None, 10**9, None, 3),
        (0, "3", 10**5, None, 3),
        (0, None, 10**9, 2, 2),
        (0, "3", 10**9, 2, 3),
        (5, "3", 10**5, 2, 5),
    ],
)
def test_threads_follow_setting_environment_beginning_and_size(
    setting: int,
    variable: str | None,
    parameters: int,
    began: int | None,
    expected: int,
    monkeypatch: pytest.MonkeyPatch,
):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    if variable:
        monkeypatch.setenv("OMP_NUM_THREADS", variable)
    assert choose_threads(Training(threads=setting), parameters, began) == expected


def test_no_recipe_names_a_number_of_threads():
    assert not [path for path in FOLDER.glob("*.yaml") if "threads" in path.read_text(encoding="utf-8")]


def test_a_run_of_an_older_version_resumes(begun: Path, monkeypatch: pytest.MonkeyPatch):
    now = resume.current_environment
    monkeypatch.setattr(train_module, "current_environment", lambda *given: now(*given) | {"instructions": "other"})
    older = json.loads((begun / "environment.json").read_text())
    del older["instructions"]
    with RunDirectory.create(begun, resume=True) as run:
        run.write_json("environment.json", older)
    train(begun, 2, resume=True)
    assert "instructions" not in json.loads((begun / "environment.json").read_text())
