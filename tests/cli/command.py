"""Commands as a user starts them."""

import os
import subprocess
import sys
from typing import Any

from tests import forked
from tests.code.tree import SOURCE

TINY = {
    "data": "{kind: dates, train: 200, valid: 11, test: 13}",
    "training.steps": "3",
    "training.batch_tokens": "509",
    "training.warmup": "0",
    "training.validate_every": "0",
    "training.threads": "1",
    "model.width": "13",
}


def environment(**more: str) -> dict[str, str]:
    """This process's, with the package on the path and lines that are not buffered by anybody."""
    return {**os.environ, "PYTHONPATH": str(SOURCE.parent), "COLUMNS": "120", **more}


def start(*arguments: str, **options: Any) -> "subprocess.Popen[str]":
    """`python -m regard`, with pipes for what is not given; forked, unless options are those of `subprocess.Popen`."""
    given = {"env": environment(), **options}
    if given.keys() <= {"env", "cwd", *forked.STREAMS}:
        return forked.start(("-m", "regard", *arguments), **given)
    return fresh(*arguments, **given)


def fresh(*arguments: str, **options: Any) -> "subprocess.Popen[str]":
    """`python -m regard` in an interpreter of its own, with what `start` has by default."""
    given = {"env": environment(), **dict.fromkeys(forked.STREAMS, subprocess.PIPE), **options}
    return subprocess.Popen([sys.executable, "-m", "regard", *arguments], text=True, encoding="utf-8", **given)


def finish(process: subprocess.Popen[str], text: str | None = None) -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    output, errors = process.communicate(text, timeout=120)
    return process.returncode, output, errors


def tiny(**more: str) -> list[str]:
    """Options that make any dates recipe a matter of seconds."""
    settings = TINY | {key.replace("__", "."): value for key, value in more.items()}
    return [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
