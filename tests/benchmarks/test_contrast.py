"""A captioner's trunk that learns beforehand which caption belongs to which image."""

from pathlib import Path

import pytest
import torch

from benchmarks import contrast
from regard.runs import run_file
from regard.runs import train as launch
from regard.runs.recipes import path_of
from tests.tasks.test_image_captioning import MODEL, settings, squares


def test_likeness_is_the_cosine_of_means():
    """Two images of two cells and captions whose padding does not count; golden values by hand."""
    cells = torch.tensor([[[1.0, 0.0], [3.0, 0.0]], [[0.0, 2.0], [2.0, 0.0]]])
    words = torch.tensor([[[1.0, 0.0], [9.0, 9.0]], [[0.0, 1.0], [0.0, 3.0]]])
    real = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    half = 0.5**0.5
    torch.testing.assert_close(contrast.likeness(cells, words, real), torch.tensor([[1.0, 0.0], [half, half]]))


def test_training_goes_on_from_what_was_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    given = settings(squares(tmp_path / "images", 60, 1))
    quick = [f"model={MODEL}", "training.steps=30", "training.warmup=0", "tokenizer.minimum_count=1"]
    monkeypatch.setattr(contrast, "data", lambda folder: given)
    monkeypatch.setattr(contrast, "NEAREST", 1)
    contrast.main("", str(tmp_path / "contrast"), *quick)
    assert "valid/recall" in capsys.readouterr().out
    more = ["training.steps=1", f"training.start={tmp_path / 'contrast'}"]
    launch.train(run_file.read(path_of("captions"), [*given, *quick, *more]), tmp_path / "run")
    first, second = (tmp_path / name / "tokenizer.json" for name in ("contrast", "run"))
    assert first.read_bytes() == second.read_bytes()
