"""Resuming under another environment: compared, refused or allowed, and written down."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.errors import InputError
from regard.runs import environment
from regard.storage.run_folder import RunDirectory
from tests.runs.test_interface import Reader, lookup


def train(folder: Path, steps: int, **options: Any) -> None:
    torch.manual_seed(1)
    settings = {"steps": steps, "device": "cpu", "tensorboard": False, "batch_tokens": 32}
    regard.fit(Reader(), lookup(), folder, training=settings, **options)


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    train(tmp_path / "run", 2)
    return tmp_path / "run"


@pytest.mark.parametrize("name", environment.DECISIVE)
def test_row_72_another_environment_is_refused_or_allowed(
    begun: Path, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    before = json.loads((begun / "environment.json").read_text())
    now = environment.now
    monkeypatch.setattr(environment, "now", lambda *given: now(*given) | {name: 77 if name == "threads" else "other"})
    other = "77" if name == "threads" else "'other'"
    line = f"environment.{name}: {before[name]!r} in the run, {other} now"
    with pytest.raises(InputError) as refused:
        train(begun, 2, resume=True)
    assert str(refused.value) == f"cannot resume: {line}; undo it or give --allow-change"
    assert json.loads((begun / "environment.json").read_text()) == before
    with caplog.at_level("WARNING", "regard"):
        train(begun, 2, resume=True, allow_change=True)
    assert caplog.messages == [f"resuming with a change: {line}"]
    after = json.loads((begun / "environment.json").read_text())
    assert after.pop("continued") == [{"update": 2, **before, name: 77 if name == "threads" else "other"}]
    assert after == before


def test_row_72_threads_are_compared_where_the_setting_is_automatic(begun: Path):
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        with pytest.raises(InputError, match=rf"environment.threads: {before} in the run, {before + 1} now"):
            train(begun, 2, resume=True)
    finally:
        torch.set_num_threads(before)
    train(begun, 2, resume=True)
    assert "continued" not in json.loads((begun / "environment.json").read_text())


def test_row_72_a_run_of_an_older_version_resumes(begun: Path, monkeypatch: pytest.MonkeyPatch):
    now = environment.now
    monkeypatch.setattr(environment, "now", lambda *given: now(*given) | {"instructions": "other"})
    older = json.loads((begun / "environment.json").read_text())
    del older["instructions"]
    with RunDirectory.create(begun, resume=True) as run:
        run.write_json("environment.json", older)
    train(begun, 2, resume=True)
    [continued] = json.loads((begun / "environment.json").read_text())["continued"]
    assert continued["instructions"] == "other"
