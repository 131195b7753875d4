"""Files that are written whole or not at all, and locks on folders."""

import errno
import importlib
import logging
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar

from safetensors import SafetensorError

from regard.errors import InputError, RunError
from regard.extras import CLOSED_IN_CHILDREN, NO_FOLLOW, WINDOWS

SUFFIX = ".tmp"
"""The ending of what a killed run leaves behind."""
FULL = {
    errno.ENOSPC: "no space left on the device",
    errno.EDQUOT: "no space left in the quota",
    errno.EFBIG: "no space: the file would be larger than the limit for files",
}
REFUSED = {
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "no permission",
    errno.EPERM: "no permission",
}


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Replace a file or folder by what is written at the temporary path inside.

    If anything fails, `path` stays as it was and the temporary is removed.

    Raises:
        RunError: The disk is full or read-only.
        InputError: The path is too long.
    """
    temporary = path.with_name(path.name + SUFFIX)
    with explain_errors(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            yield temporary
            sync(temporary)
            os.replace(temporary, path)
            sync(path.parent)
        except BaseException:
            discard(temporary)
            raise


def write(path: Path, data: bytes) -> None:
    """Replace the file at `path` by one with this content; raise as `replacing`."""
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def append(path: Path, data: bytes) -> None:
    """Append to a file, in one piece; on a full disk it stays as it was."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | CLOSED_IN_CHILDREN | NO_FOLLOW
    with explain_errors(path):
        descriptor = os.open(path, flags, 0o644)
        size = os.fstat(descriptor).st_size
        try:
            while data:
                data = data[os.write(descriptor, data) :]
        except OSError:
            os.ftruncate(descriptor, size)
            raise
        finally:
            os.close(descriptor)


def sync(path: Path) -> None:
    """Flush the file's content, or the folder's list of names, to the disk.

    Windows opens no folder, and flushes only what may be written.
    """
    if WINDOWS and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDWR if WINDOWS else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def discard(path: Path) -> None:
    """Remove a file or folder; if it cannot be removed now, the next start tries again."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        return
    # called while another error is on its way, which is more precise
    with suppress(OSError):
        path.unlink(missing_ok=True)


@contextmanager
def explain_errors(path: Path) -> Iterator[None]:
    """Turn an error of the operating system at `path` into one line.

    Raises:
        RunError, InputError: The line.
    """
    try:
        yield
    except (OSError, SafetensorError) as error:
        # the only place where safetensors keeps it
        match = re.search(r"os error (\d+)", str(error))
        code = getattr(error, "errno", None) or (match and int(match[1]))
        # NumPy's words for a write that was cut short, which has no number
        if code is None and "requested and" in str(error):
            code = errno.ENOSPC
        if code is None:
            raise
        if code == errno.ENAMETOOLONG:
            raise InputError(
                f"{str(path)[:80]}...: the path is too long for this file system; "
                "choose a shorter --out"
            ) from error
        reason = FULL.get(code) or REFUSED.get(code) or os.strerror(code)
        advice = "; choose another --out" if code in REFUSED else ""
        if code in FULL:
            advice = "; free some and start again (training: with --resume)"
        raise RunError(f"{path}: cannot be written: {reason}{advice}") from error


@contextmanager
def new_folder(path: Path) -> Iterator[None]:
    """Create a folder and remove it if anything fails inside.

    Raises:
        InputError: It exists.
    """
    if path.exists():
        raise InputError(f"{path}: exists; choose another --out")
    with explain_errors(path):
        path.mkdir(parents=True)
    try:
        yield
    except BaseException:
        shutil.rmtree(path)
        raise


@contextmanager
def remedy(usual: str, instead: str) -> Iterator[None]:
    """Name another remedy in errors inside."""
    try:
        yield
    except (InputError, RunError) as error:
        error.args = (str(error).replace(usual, instead),)
        raise


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
            raise InputError(f"{folder}: in use by this process; choose another --out")
        flags = os.O_RDWR | os.O_CREAT | CLOSED_IN_CHILDREN
        with explain_errors(self.path):
            self._descriptor = os.open(self.path, flags, 0o644)
        try:
            lock_file(self._descriptor)
        except OSError as error:
            process = os.read(self._descriptor, 20).decode("ascii", "replace").strip()
            os.close(self._descriptor)
            kind, reason = InputError, f"cannot be locked ({error.strerror})"
            if isinstance(error, BlockingIOError | PermissionError):
                kind, reason = InUse, f"in use by process {process or 'unknown'}"
            raise kind(f"{folder}: {reason}; choose another --out") from error
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
