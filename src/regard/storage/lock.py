"""One writer for a folder, by a lock of the operating system."""

import importlib
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from regard.errors import InputError
from regard.storage.atomic import explain_errors
from regard.system import CLOSED_IN_CHILDREN, WINDOWS

NAME = ".lock"
BEYOND = 1 << 20
"""The byte that Windows locks. Nobody else may read a locked byte, so it lies beyond the
content."""
PAUSE = 0.1
"""Seconds between two attempts to get a lock."""
log = logging.getLogger("regard")


class InUse(InputError):
    """A folder is in use by another process."""


class Lock:
    """A lock on a folder, or on a part of it by `name`, until `release`.

    The operating system releases it when the process ends: a record lock, where `flock`
    of the package filelock would live on in worker processes that outlive a killed
    run. It never excludes its own process, hence the set of held ones.

    Raises:
        InUse: Another process holds it.
        InputError: This process holds it, or the file system has no locks.
        RunError: The disk is full.
    """

    _held: ClassVar[set[Path]] = set()

    def __init__(self, folder: Path, name: str = NAME) -> None:
        self.path = folder.resolve() / name
        if self.path in Lock._held:
            process = f"{os.getpid()} (this one)"
            raise InputError(
                f"{folder}: in use by process {process}; choose another --out"
            )
        flags = os.O_RDWR | os.O_CREAT | CLOSED_IN_CHILDREN
        with explain_errors(self.path):
            self._descriptor = os.open(self.path, flags, 0o644)
        try:
            lock_file(self._descriptor)
        except OSError as error:
            process = os.read(self._descriptor, 20).decode("ascii", "replace").strip()
            os.close(self._descriptor)
            if isinstance(error, BlockingIOError | PermissionError):
                raise InUse(
                    f"{folder}: in use by process {process or 'unknown'}; wait for it "
                    "or choose another --out"
                ) from error
            raise InputError(
                f"{folder}: cannot be locked ({error.strerror}); choose another --out"
            ) from error
        Lock._held.add(self.path)
        try:
            with explain_errors(self.path):
                os.ftruncate(self._descriptor, 0)
                os.write(self._descriptor, f"{os.getpid()}\n".encode())
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Let others write.

        The file stays: without it two processes could lock two files of one name.
        """
        if self.path in Lock._held:
            Lock._held.remove(self.path)
            os.close(self._descriptor)


def lock_file(descriptor: int) -> None:
    """Lock an open file for this process until it closes the descriptor or ends.

    Raises:
        BlockingIOError, PermissionError: Another process holds the lock.
        OSError: The file system has no locks.
    """
    if not WINDOWS:
        fcntl = importlib.import_module("fcntl")
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return
    msvcrt = importlib.import_module("msvcrt")
    os.lseek(descriptor, BEYOND, os.SEEK_SET)
    try:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    finally:
        os.lseek(descriptor, 0, os.SEEK_SET)


@contextmanager
def wait_for_lock(
    folder: Path, subject: str, work: str = "encodes it"
) -> Iterator[None]:
    """Hold the lock of a folder inside; wait while another process holds it.

    Args:
        folder: The folder.
        subject: The subject of the line that says so.
        work: What the other process does.

    Raises:
        InputError: The folder cannot be locked.
    """
    lock = None
    logged = False
    while lock is None:
        try:
            lock = Lock(folder)
        except InUse:
            if not logged:
                log.info("%s: another process %s; waiting", subject, work)
            logged = True
            time.sleep(PAUSE)
    try:
        yield
    finally:
        lock.release()
