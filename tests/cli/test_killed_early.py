"""A run killed before its first checkpoint resumes like any other; runs with checkpoints are always checked."""

import signal
import subprocess
from pathlib import Path

import pytest

from regard.storage.run_folder import RunDirectory
from tests.cli.command import finish, start, tiny
from tests.cli.test_run import wait_for


@pytest.mark.parametrize("written", [(), ("config.yaml",)])
def test_killed_before_it_was_described(regard, tmp_path: Path, written: tuple[str, ...]):
    with RunDirectory.create(tmp_path / "run") as run:
        for name in written:
            run.write_text(name, "")
    code, output, errors = regard("train", "dates", "--out", str(tmp_path / "run"), "--resume", *tiny())
    assert code == 0, errors
    assert "test/exact-match" in output


def test_killed_before_the_first_checkpoint(regard, tmp_path: Path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    options = tiny(
        model__width="8",
        model__hidden="8",
        training__steps="120",
        training__batch_tokens="60",
        training__log_every="1",
        training__keep_best="0",
    )
    process = start("train", "dates-transformer", "--out", str(killed), *options, stdout=subprocess.DEVNULL)
    wait_for(killed / "metrics.jsonl")
    process.kill()
    assert finish(process)[0] == -signal.SIGKILL
    assert regard("train", "dates-transformer", "--out", str(killed), "--resume", *options)[0] == 0
    assert regard("train", "dates-transformer", "--out", str(whole), *options)[0] == 0
    weights = [(folder / "weights.safetensors").read_bytes() for folder in (whole, killed)]
    assert weights[0] == weights[1]


def test_a_run_with_checkpoints_and_no_identity_is_refused(regard, tmp_path: Path):
    run = tmp_path / "run"
    assert regard("train", "dates", "--out", str(run), *tiny())[0] == 0
    (run / "identity.json").unlink()
    code, _, errors = regard("train", "dates", "--out", str(run), "--resume", *tiny())
    assert code == 2
    assert "identity.json" in errors
