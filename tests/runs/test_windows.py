"""What Windows lacks and has otherwise, simulated: nobody has tried regard on Windows itself."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import environment, tiny
from tests.code.tree import ROOT


def simulated(*arguments: str, **more: str) -> subprocess.CompletedProcess[bytes]:
    """A command on a system without fcntl, resource, SIGHUP and descriptors of folders."""
    paths = f"{ROOT / 'src'}:{ROOT}"
    command = [sys.executable, "-m", "tests.runs.simulated_windows", *arguments]
    return subprocess.run(command, capture_output=True, env=environment(PYTHONPATH=paths, **more), timeout=120)


def held(folder: Path) -> subprocess.CompletedProcess[bytes]:
    """What a second process hears while a first one holds the lock of a folder."""
    code = (
        "import subprocess, sys; from pathlib import Path; from tests.runs.simulated_windows import become_windows\n"
        "become_windows(); from regard.storage.atomic import Lock; from regard.errors import InputError\n"
        "try: lock = Lock(Path(sys.argv[1]))\n"
        "except InputError as error: sys.exit(str(error))\n"
        "if sys.argv[2:]: sys.exit(subprocess.call([sys.executable, '-c', sys.orig_argv[2], sys.argv[1]]))\n"
    )
    paths = environment(PYTHONPATH=f"{ROOT / 'src'}:{ROOT}")
    return subprocess.run(
        [sys.executable, "-c", code, str(folder), "first"], capture_output=True, env=paths, timeout=120
    )


@pytest.mark.slow
def test_a_run_is_trained_resumed_and_used_without_what_windows_lacks(tmp_path: Path):
    run = str(tmp_path / "dates")
    train = ["train", "dates", "--out", run]
    resume = [*train, "--resume", "--allow-change", *tiny(training__steps="5")]
    done = simulated(*train, *tiny(), "then", *resume, "then", "predict", run, "9 May 2018")
    assert done.returncode == 0, done.stderr.decode()
    assert b"update 5" in done.stderr
    assert done.stdout.count(b"The run is in") == 2
    assert b"Traceback" not in done.stderr


@pytest.mark.slow
def test_a_second_writer_is_refused_by_the_lock_of_windows(tmp_path: Path):
    found = held(tmp_path)
    assert found.returncode == 1
    assert b"in use by process" in found.stderr
    assert b"unknown" not in found.stderr  # the number of the first one can be read while it holds the lock


@pytest.mark.slow
def test_the_server_listens_without_what_windows_lacks(tmp_path: Path):
    code = (
        "from tests.runs.simulated_windows import become_windows\n"
        "become_windows()\n"
        "from regard.serve import server\n"
        "server.listen('127.0.0.1', 0).close()\n"
    )
    paths = environment(PYTHONPATH=f"{ROOT / 'src'}:{ROOT}")
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, env=paths, timeout=120)
    assert found.returncode == 0, found.stderr.decode()


@pytest.mark.slow
def test_a_console_of_one_code_page_gets_escapes_for_other_characters(tmp_path: Path):
    found = simulated("recipes", PYTHONIOENCODING="cp437")
    assert found.returncode == 0
    wrong = simulated("predict", str(tmp_path / "обучение"), PYTHONIOENCODING="cp437")
    assert wrong.returncode == 2
    assert b"\\u043e" in wrong.stderr
    assert b"Traceback" not in wrong.stderr
