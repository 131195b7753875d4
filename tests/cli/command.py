"""Commands as a user starts them."""

import os
import subprocess
import sys

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


def start(*arguments: str, **options) -> subprocess.Popen[str]:
    """`python -m regard`, with pipes for what is not given."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [sys.executable, "-m", "regard", *arguments]
    return subprocess.Popen(command, text=True, encoding="utf-8", **{"env": environment(), **pipes, **options})


def finish(process: subprocess.Popen[str], text: str | None = None) -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    output, errors = process.communicate(text, timeout=120)
    return process.returncode, output, errors


def tiny(**more: str) -> list[str]:
    """Options that make any dates recipe a matter of seconds."""
    settings = TINY | {key.replace("__", "."): value for key, value in more.items()}
    return [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
