"""Killed, stopped, resumed: the same weights, byte for byte."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.training import toy


@pytest.mark.parametrize(
    ("processes", "changes"),
    [
        (1, {}),
        pytest.param(1, {"workers": 2, "average_decay": 0.9}, marks=pytest.mark.slow),
        pytest.param(1, {"checkpoint_minutes": 1e-9}, marks=pytest.mark.slow),
        pytest.param(1, {"carrying": True, "accumulate": 2}, marks=pytest.mark.slow),
        pytest.param(2, {"accumulate": 2, "carrying": True}, marks=pytest.mark.slow),
    ],
)
def test_killed_and_resumed(tmp_path: Path, processes: int, changes: dict[str, Any]):
    result = toy.call(toy.matrix, tmp_path, processes, changes)
    for name, codes in result["codes"].items():
        assert codes == [0 if name == "whole" or "resumed" in name else -9] * processes, name
    assert len(result["digests"]) == 4
    assert len(set(result["digests"].values())) == 1, result["digests"]


@pytest.mark.parametrize(
    ("processes", "at", "changes"),
    [
        (1, 10, {}),
        (1, 22, {}),  # neither a checkpoint nor a validation is due
        (1, 21, {}),  # a checkpoint is due
        pytest.param(1, 20, {}, marks=pytest.mark.slow),  # a validation is due
        pytest.param(2, 10, {}, marks=pytest.mark.slow),
        pytest.param(2, 22, {}, marks=pytest.mark.slow),
    ],
)
def test_asked_to_stop(tmp_path: Path, processes: int, at: int, changes: dict[str, Any]):
    result = toy.call(toy.signals, tmp_path, processes, at, changes)
    codes, steps = result["codes"], result["steps"]
    assert codes["terminate"] == [143] * processes
    assert codes["interrupt"] == [130] * processes
    assert codes["twice"] == [130] * processes
    assert steps["terminate"][0][-1] == steps["interrupt"][0][-1] == at
    assert steps["twice"][0][-1] == max(step for step in range(at) if step % 3 == 0 or step % 5 == 0)
    assert steps["twice"][1] < 30
    assert steps["terminate, resumed"][-1] == steps["twice, resumed"][-1] == steps["whole"][-1] == 24
    assert len(set(result["digests"].values())) == 1, result["digests"]


def torchrun(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    script = os.fspath(Path(toy.__file__))
    everything = [*command, script, *map(str, arguments)]
    return subprocess.run(everything, env=toy.environment(), capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.slow
def test_under_torchrun(tmp_path: Path):
    """As a run in peace that no launcher starts, whose processes import nothing anew."""
    assert toy.call(toy.start, tmp_path / "whole", 2, {"keep_best": 0}) == [0, 0]
    assert torchrun(tmp_path / "killed", "keep_best=0", "trouble=('kill', 11)").returncode != 0
    assert torchrun(tmp_path / "killed", "keep_best=0", "resume=True").returncode == 0
    assert toy.digest(tmp_path / "killed") == toy.digest(tmp_path / "whole")


@pytest.mark.slow
def test_an_accident_of_one_process(tmp_path: Path):
    done = toy.call(toy.accidents, tmp_path)
    killed = -signal.SIGKILL  # as a launcher ends the rest
    expected = {"raise": [1, 1], "kill one": [1, killed], "terminate one": [143, 143], "stop one": [1, killed]}
    assert {kind: each["codes"] for kind, each in done.items()} == expected
    for kind, each in done.items():
        assert each["seconds"] < 30, kind
        assert each["steps"] == ([10, 11] if kind == "terminate one" else [9, 10])
        assert "\n" not in each["line"]
        said = (
            "stopped by SIGTERM after update 11" if kind == "terminate one" else "another process of the run ended, or"
        )
        assert each["line"].startswith(said)
        assert each["resumed"] == [0, 0]
        assert each["same"], kind


def test_several_processes_learn_what_one_does(tmp_path: Path):
    done = toy.call(toy.together, tmp_path)
    weights = {name: torch.tensor(each) for name, each in done.items()}
    torch.testing.assert_close(weights["two"], weights["one"], rtol=1e-5, atol=1e-6)
