"""`python -m tests.runs.simulated_windows ARGUMENTS` runs regard without what Windows lacks, and with its locks; of
several commands with `then` between them, each begins once the one before has succeeded.

Other libraries are imported before, as the system below them stays what it is.
"""

import importlib
import os
import shutil
import signal
import sys
from itertools import groupby
from types import ModuleType
from typing import Any

OTHERS = (
    "torch",
    "accelerate",
    "safetensors.torch",
    "huggingface_hub",
    "tokenizers",
    "uvicorn",
    "asyncio",
    "subprocess",
)
MISSING = ("setpgid", "getuid", "sysconf", "pread", "pwrite", "O_NOFOLLOW", "O_CLOEXEC", "fork", "register_at_fork")


def locks() -> ModuleType:
    """The module msvcrt: mandatory locks on a range of bytes from the position of the descriptor."""
    import fcntl

    def locking(descriptor: int, mode: int, count: int) -> None:
        assert mode == module.LK_NBLCK  # type: ignore[attr-defined]
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, count, os.lseek(descriptor, 0, os.SEEK_CUR))
        except BlockingIOError:
            raise PermissionError(13, "Permission denied") from None

    module: Any = ModuleType("msvcrt")
    module.LK_NBLCK, module.locking = 2, locking
    return module


def opened(path: Any, flags: int, *rest: Any, original: Any = os.open, **more: Any) -> int:
    """A folder has no descriptor."""
    if os.path.isdir(path):
        raise PermissionError(13, "Permission denied", path)
    return original(path, flags, *rest, **more)


def flushed(descriptor: int, original: Any = os.fsync) -> None:
    """Only what may be written is flushed."""
    os.ftruncate(descriptor, os.fstat(descriptor).st_size)  # fails for a descriptor that reads
    original(descriptor)


def become_windows() -> None:
    """Take away and replace; `sys.platform` is another while the constants of `regard.extras` are read only."""
    for name in OTHERS:
        importlib.import_module(name)
    sys.modules["msvcrt"] = locks()
    sys.modules["fcntl"] = sys.modules["resource"] = None  # type: ignore[assignment]
    del signal.SIGHUP  # type: ignore[misc]
    for name in MISSING:
        delattr(os, name)
    shutil._use_fd_functions = False  # type: ignore[attr-defined]
    os.open, os.fsync = opened, flushed
    os.environ["USERNAME"] = "reader"
    before, sys.platform = sys.platform, "win32"
    importlib.import_module("regard.extras")
    sys.platform = before


if __name__ == "__main__":
    become_windows()
    from regard.cli.main import main

    commands = [list(command) for then, command in groupby(sys.argv[1:], lambda each: each == "then") if not then]
    sys.exit(next(filter(None, map(main, commands)), 0))
