"""`import regard`: its names, and the modules that it does not import (row 68)."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import regard
from regard import attention
from regard.attention import record as recording
from regard.runs import load as runs
from tests.cli.command import environment
from tests.code.tree import ROOT

WATCH = """
import os, sys, threading
events = []
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
def watch(event, arguments):
    if event.startswith("socket.") or event in ("subprocess.Popen", "os.mkdir", "_thread.start_new_thread"):
        events.append((event, arguments))
    elif event == "open" and arguments[2] & WRITING:
        events.append((event, arguments))
sys.addaudithook(watch)
"""
THREADS = "len(os.listdir('/proc/self/task')) if os.path.isdir('/proc/self/task') else threading.active_count()"


def python(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs the code with warnings as errors, at home in an empty folder, and writes no byte code."""
    places = dict.fromkeys(("HOME", "TMPDIR", "XDG_CACHE_HOME"), str(folder))
    variables = environment(PYTHONDONTWRITEBYTECODE="1", **places)
    command = [sys.executable, "-W", "error", "-c", WATCH + code]
    return subprocess.run(command, env=variables, cwd=folder, capture_output=True, text=True)


def test_importing_does_nothing_else(tmp_path: Path):
    code = f"import regard\nassert events == [], events\nassert {THREADS} == 1\nassert 'torch' not in sys.modules"
    done = python(code, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert os.listdir(tmp_path) == []


def test_using_it_asks_no_network_and_leaves_no_file(tmp_path: Path):
    code = "import regard, regard.cli.main, regard.testing\nregard.load, regard.record, regard.attend\n"
    code += "assert all(event == 'open' for event, _ in events), events\nassert threading.active_count() == 1"
    done = python(code, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert os.listdir(tmp_path) == []


def test_names_are_those_of_their_modules():
    assert regard.attend is attention.attend
    assert regard.record is recording.record
    assert regard.load is runs.load
    assert {"attend", "load", "record", "__version__"} <= set(dir(regard))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'lode'"):
        regard.lode  # type: ignore[attr-defined]  # noqa: B018


def test_version_is_written_once_more_in_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == regard.__version__
