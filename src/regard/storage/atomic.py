"""Files that appear whole or not at all, and one clear line when the disk refuses."""

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from safetensors import SafetensorError

from regard.errors import InputError, RunError
from regard.system import CLOSED_IN_CHILDREN, NO_FOLLOW, WINDOWS

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
        code = error.errno if isinstance(error, OSError) else None
        # the only place where safetensors keeps it
        if match := re.search(r"os error (\d+)", str(error)):
            code = code or int(match[1])
        if code is None:
            raise
        if code == errno.ENAMETOOLONG:
            raise InputError(
                f"{str(path)[:80]}...: the path is too long for this file system; "
                "choose a shorter --out"
            ) from error
        reason, advice = os.strerror(code), ""
        if code in FULL:
            reason = FULL[code]
            advice = "; free some and start again (training: with --resume)"
        elif code in REFUSED:
            reason, advice = REFUSED[code], "; choose another --out"
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
        if usual not in str(error):
            raise
        kind = InputError if isinstance(error, InputError) else RunError
        raise kind(str(error).replace(usual, instead)) from error
