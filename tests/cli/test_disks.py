"""Full disks, readers that leave, encodings and environments that lack something."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import environment, finish, start, start_limited, tiny

ALONE = """
import pwd, sys
def unknown(user): raise KeyError(f"getpwuid(): uid not found: {user}")
pwd.getpwuid = unknown
from regard.cli.main import main
sys.exit(main())
"""
"""A process of a user whom the system does not know."""
FULL = "regard: standard output cannot be written: No space left on device; give it another place\n"


@pytest.mark.parametrize("arguments", [["recipes"], ["--help"], ["--version"], ["predict", "RUN", "14 July 1989"]])
def test_standard_output_on_a_full_disk(run: Path, arguments: list[str]):
    with open("/dev/full", "w") as full:
        process = start(*(str(run) if each == "RUN" else each for each in arguments), stdout=full)
        code, _, errors = finish(process)
    assert (code, errors) == (1, FULL)


def closed() -> dict[str, Any]:
    return {"preexec_fn": lambda: os.close(2)}


def left() -> dict[str, Any]:
    reading, writing = os.pipe()
    os.close(reading)
    return {"stderr": writing}


@pytest.mark.parametrize("deaf", [left, closed], ids=["reader gone", "closed"])
def test_training_outlives_who_reads_its_progress(tmp_path: Path, deaf: Callable[[], dict[str, Any]]):
    streams = deaf()
    process = start("train", "dates", "--out", str(tmp_path / "run"), *tiny(training__log_every="1"), **streams)
    if "stderr" in streams:
        os.close(streams["stderr"])
    code, output, _ = finish(process)
    assert code == 0
    assert "test/exact-match" in output
    assert "loss" not in output  # where a print without a stream would go


def test_a_full_disk_while_training(tmp_path: Path):
    options = tiny(training__steps="500", training__log_every="1", training__tensorboard="false")
    # above the files that precede training
    process = start_limited(5000, "train", "dates", "--out", str(tmp_path / "run"), *options)
    code, _, errors = finish(process)
    last = errors.splitlines()[-1]
    assert code == 1
    assert "metrics.jsonl: cannot be written: no space" in last
    assert last.endswith("larger than the limit for files; free some and start again (training: with --resume)")
    assert "Traceback" not in errors
    records = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    assert records.endswith(b"\n")
    assert all(map(json.loads, records.splitlines()))


@pytest.mark.parametrize("form", [".png", ".svg", ".html"])
def test_a_picture_on_a_full_disk(run: Path, tmp_path: Path, form: str):
    old = tmp_path / f"picture{form}"
    old.write_text("old")
    process = start_limited(2000, "show", str(run), "14 July 1989", "--out", str(old))
    code, _, errors = finish(process)
    assert code == 1
    reason = "no space: the file would be larger than the limit for files; free some and start again"
    assert errors == f"regard: {old}: cannot be written: {reason} (training: with --resume)\n"
    assert [each.name for each in tmp_path.iterdir()] == [old.name]
    assert old.read_text() == "old"


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "cp1252", "utf-8", "utf-16"])
def test_json_stays_json(run: Path, encoding: str):
    text = "14 Jüly 日本 \U0001f600"
    command = [sys.executable, "-m", "regard", "predict", str(run), text, "--json"]
    done = subprocess.run(
        command, env=environment(PYTHONIOENCODING=encoding, PYTHONUTF8="0"), capture_output=True, check=False
    )
    assert done.returncode == 0
    assert json.loads(done.stdout.decode(encoding))["source"] == text
    assert encoding == "utf-16" or json.loads(done.stdout.decode("utf-8"))["source"] == text


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"], ["predict", "--nonsense"]], ids=" ".join)
def test_a_terminal_without_width(regard, monkeypatch: pytest.MonkeyPatch, arguments: list[str]):
    monkeypatch.setenv("COLUMNS", "0")
    code, _, errors = regard(*arguments)
    assert code == (2 if "--nonsense" in arguments else 0)
    assert "unexpected" not in errors


def test_no_home_and_no_user(run: Path, tmp_path: Path):
    without = {name: value for name, value in environment().items() if name not in NAMES}
    command = [sys.executable, "-c", ALONE, "show", str(run), "14 July 1989", "--out", "a.png"]
    done = subprocess.run(command, env=without, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "unexpected" not in done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / "a.png").is_file()


NAMES = ("HOME", "USER", "LOGNAME", "USERNAME", "LNAME", "TMPDIR", "XDG_CACHE_HOME", "MPLCONFIGDIR")
