"""Commands as a user starts them."""

import os
import subprocess
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
    """`python -m regard`, with pipes for what is not given; forked where it can be."""
    return forked.start(("-m", "regard", *arguments), **{"env": environment(), **options})


def start_limited(size: int, *arguments: str) -> "subprocess.Popen[str]":
    """As `start`, where no file can be longer than so many bytes, as on a disk that is full."""
    code = f"import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size})); "
    code += "from regard.cli.main import main; sys.exit(main())"
    return forked.start(("-c", code, *arguments), environment())


def fresh(*arguments: str, **options: Any) -> "subprocess.Popen[str]":
    """As `start`, in an interpreter of its own."""
    return forked.fresh(("-m", "regard", *arguments), **{"env": environment(), **options})


def finish(process: subprocess.Popen[str], text: str | None = None) -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    output, errors = process.communicate(text, timeout=120)
    return process.returncode, output, errors


def tiny(**more: str) -> list[str]:
    """Options that make any dates recipe a matter of seconds."""
    settings = TINY | {key.replace("__", "."): value for key, value in more.items()}
    return [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
