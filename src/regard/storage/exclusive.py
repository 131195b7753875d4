"""The lock of the operating system on an open file: a record lock, or Windows' own."""

import importlib
import os

from regard.system import WINDOWS

BEYOND = 1 << 20
"""The byte that Windows locks; it lies beyond the content, as nobody else may read a locked one."""


def exclude(descriptor: int) -> None:
    """Lock an open file for this process until it closes the descriptor or ends; the kernel releases it.

    `flock`, which filelock uses, would live on in worker processes that outlive a killed run; a record lock does not.

    Raises:
        BlockingIOError, PermissionError: another process holds the lock.
        OSError: the file system has no locks.
    """
    if WINDOWS:
        _exclude_on_windows(descriptor)
        return
    fcntl = importlib.import_module("fcntl")
    fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _exclude_on_windows(descriptor: int) -> None:
    msvcrt = importlib.import_module("msvcrt")
    os.lseek(descriptor, BEYOND, os.SEEK_SET)
    try:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    finally:
        os.lseek(descriptor, 0, os.SEEK_SET)
