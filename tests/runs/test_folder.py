"""The folder of `--out`: a link, a mount point, an empty folder of the user's; what stays of a start that fails."""

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from accelerate import PartialState

from regard.errors import InputError, RunError
from regard.runs.train import open_folder
from regard.storage.run_folder import RunDirectory

KINDS = ("absent", "empty", "link", "mount")


@pytest.fixture(params=KINDS)
def out(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "out"
    if request.param in ("empty", "mount"):
        path.mkdir()
    elif request.param == "link":
        (tmp_path / "elsewhere").mkdir()
        path.symlink_to(tmp_path / "elsewhere")
    if request.param == "mount":
        mounting = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(path)]
        try:
            mounted = subprocess.run(mounting, capture_output=True, check=False).returncode == 0
        except OSError:
            mounted = False
        if not mounted:
            pytest.skip("file systems cannot be mounted here")
        (path / "lost+found").mkdir()
    yield path
    if request.param == "mount":
        subprocess.run(["umount", str(path)], check=True)


def fail(out: Path, error: BaseException, *checkpoints: int, logged: bool = False) -> None:
    """A new run that fails once it has written some files."""
    with open_folder(out, False, PartialState(cpu=True)) as run:
        run.write_text("config.yaml", "x")
        if logged:
            run.append_jsonl("metrics.jsonl", {})
        (out / "tensorboard").mkdir()
        for step in checkpoints:
            run.save_checkpoint(step, {}, {})
        raise error


@pytest.mark.parametrize("error", [InputError("bad data"), RunError("no memory"), KeyboardInterrupt(), ValueError("x")])
def test_the_error_is_reported_and_the_next_start_works(out: Path, error: BaseException):
    was = out.exists(), out.is_symlink(), os.path.ismount(out)
    with pytest.raises(type(error)) as raised:
        fail(out, error)
    assert raised.value is error
    assert (out.exists(), out.is_symlink(), os.path.ismount(out)) == was
    assert not out.exists() or {each.name for each in out.iterdir()} <= {"lost+found"}
    with open_folder(out, False, PartialState(cpu=True)) as run:
        run.write_text("config.yaml", "y")
    assert RunDirectory.open(out).read_text("config.yaml") == "y"


def test_what_a_checkpoint_holds_is_never_removed(tmp_path: Path):
    with pytest.raises(InputError, match="bad data"):
        fail(tmp_path, InputError("bad data"), 3)
    assert RunDirectory.open(tmp_path).checkpoint_steps() == [3]


def test_the_log_of_a_run_that_failed_stays(tmp_path: Path):
    with pytest.raises(RunError, match="the loss is not finite"):
        fail(tmp_path / "failed", RunError("the loss is not finite"), logged=True)
    with open_folder(tmp_path / "failed", True, PartialState(cpu=True)) as run:
        assert run.read_jsonl("metrics.jsonl") == [{}]
    with pytest.raises(InputError, match="bad data"):
        fail(tmp_path / "bad", InputError("bad data"), logged=True)
    assert not (tmp_path / "bad").exists()


def test_a_link_to_nothing(tmp_path: Path):
    (tmp_path / "out").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"is a link to .*nowhere, which does not exist; create it first"):
        RunDirectory.create(tmp_path / "out")


def test_a_disk_that_is_full_before_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """One line, and the next start works."""

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr("regard.storage.lock.os.write", full)
        with pytest.raises(RunError, match=r"run/\.lock: cannot be written: no space"):
            RunDirectory.create(tmp_path / "run")
    RunDirectory.create(tmp_path / "run").close()
