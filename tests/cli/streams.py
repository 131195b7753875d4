"""Commands whose standard streams lack a reader or are closed, each in a fork of one process that has PyTorch already.

`python -m tests.cli.streams FOLDER RUN` reads its cases from standard input and writes how they ended,
both as JSON."""

import io
import json
import os
import signal
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from regard.cli.main import main as regard

State = Literal["kept", "gone", "closed"]
"""A stream that is read, one whose reader has gone (on standard input: which has ended), and one that is not there."""
SECONDS = 60.0
MODULES = ("accelerate", "regard.tasks.language_model", "regard.training.loop")
"""What the commands import, and with them PyTorch."""
NAMES = ("stdin", "stdout", "stderr")


@dataclass(frozen=True)
class Case:
    """A command and its streams; `text` is what standard input holds."""

    arguments: list[str]
    stdin: State = "gone"
    stdout: State = "kept"
    stderr: State = "kept"
    text: str = ""


@dataclass(frozen=True)
class Ended:
    """The exit code of a command, negative for the number of a signal, its seconds, and what its streams got."""

    code: int
    seconds: float
    output: str
    errors: str


def run(case: Case, folder: Path) -> Ended:
    """Run a command in a fork; files in the folder take the place of terminals."""
    folder.mkdir()
    for name in NAMES:
        (folder / name).write_text(case.text if name == "stdin" else "", encoding="utf-8")
    began = time.monotonic()
    if (child := os.fork()) == 0:
        _command(case, folder)
    code = _wait(child, began + SECONDS)
    output, errors = ((folder / name).read_text(encoding="utf-8") for name in NAMES[1:])
    return Ended(code, time.monotonic() - began, output, errors)


def _wait(child: int, end: float) -> int:
    while (found := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.01)
    return os.waitstatus_to_exitcode(found[1])


def _command(case: Case, folder: Path) -> None:
    """Never returns: the process ends as an interpreter that ran the command alone, which flushes its streams."""
    for number, name in enumerate(NAMES):
        _open(number, getattr(case, name), folder / name)
    code = regard(case.arguments)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(code)  # at once: PyTorch takes a second to be taken down


def _open(number: int, state: State, path: Path) -> None:
    """Make a standard stream as it is when an interpreter starts: None for a descriptor that is closed."""
    reads = number == 0
    if state == "closed":
        os.close(number)
        setattr(sys, NAMES[number], None)
        return
    if state == "gone" and not reads:
        reading, descriptor = os.pipe()
        os.close(reading)
    else:
        source = os.devnull if state == "gone" else path
        descriptor = os.open(source, os.O_RDONLY if reads else os.O_WRONLY)
    os.dup2(descriptor, number)
    os.close(descriptor)
    stream = open(number, "rb" if reads else "wb", closefd=False)  # noqa: SIM115
    setattr(sys, NAMES[number], io.TextIOWrapper(stream, encoding="utf-8", line_buffering=number == 2))


def main() -> None:
    """Run all cases, one after the other."""
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        regard(["--help"])  # imports all commands
        regard(["predict", sys.argv[2], "a", "--json"])
    for name in MODULES:
        import_module(name)
    cases: dict[str, Any] = json.load(sys.stdin)
    folder = Path(sys.argv[1])
    ended = {name: asdict(run(Case(**case), folder / name)) for name, case in cases.items()}
    print(json.dumps(ended))


if __name__ == "__main__":
    main()
