"""TensorBoard's files follow a run."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import tiny


def test_a_run_with_its_board(tmp_path: Path, regard: Any):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    settings = tiny(training__tensorboard="true", training__log_every="1")
    code, _, errors = regard("train", "dates", "--out", str(tmp_path / "dates"), *settings)
    assert code == 0, errors
    read = accumulator.EventAccumulator(str(tmp_path / "dates" / "tensorboard")).Reload()
    assert len(read.Scalars("training/loss")) == 3
    assert [item.step for item in read.Scalars("validation/exact-match")] == [3]
