"""Files that appear whole or not at all, and one clear line when the disk refuses."""

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from regard.errors import InputError, RunError
from regard.system import CLOSED_IN_CHILDREN, NO_FOLLOW, WINDOWS

SUFFIX = ".tmp"  # what a killed run leaves behind ends in this
FULL = {
    errno.ENOSPC: "no space left on the device",
    errno.EDQUOT: "no space left in the quota",
}
FULL |= {errno.EFBIG: "no space: the file would be larger than the limit for files"}
REFUSED = {
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "no permission",
    errno.EPERM: "no permission",
}
FREE = "free some and start again (training: with --resume)"
TOO_LONG = "the path is too long for this file system; choose a shorter --out"


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path` for a file or folder; afterwards flush it and rename it to `path`.

    If anything fails, `path` stays as it was and the temporary is removed.
    Raises RunError when the disk is full or read-only, InputError when the path is too long.
    """
    temporary = path.with_name(path.name + SUFFIX)
    with explained(path):
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
    """Replace the file at `path` by one with this content. Raises as `replacing` does."""
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def append(path: Path, data: bytes) -> None:
    """Append to a file, in one piece; on a full disk it stays as it was. Raises as `replacing` does."""
    with explained(path):
        descriptor = os.open(
            path,
            os.O_WRONLY | os.O_APPEND | os.O_CREAT | CLOSED_IN_CHILDREN | NO_FOLLOW,
            0o644,
        )
        before = os.fstat(descriptor).st_size
        try:
            rest = data
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        except OSError:
            os.ftruncate(descriptor, before)
            raise
        finally:
            os.close(descriptor)


def sync(path: Path) -> None:
    """Flush the file's content, or the folder's list of names, to the disk. Windows opens no folder, and flushes only
    what may be written."""
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
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return  # called while another error is on its way, which is more precise


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn an error of the operating system at `path` into one line. Raises RunError or InputError."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        code = _code(error)
        if code is None:
            raise
        if code == errno.ENAMETOOLONG:
            raise InputError(f"{str(path)[:80]}...: {TOO_LONG}") from error
        if code in FULL:
            raise RunError(
                f"{path}: cannot be written: {FULL[code]}; {FREE}"
            ) from error
        if code in REFUSED:
            raise RunError(
                f"{path}: cannot be written: {REFUSED[code]}; choose another --out"
            ) from error
        raise RunError(f"{path}: cannot be written: {os.strerror(code)}") from error


def _code(error: OSError | SafetensorError) -> int | None:
    if isinstance(error, OSError):
        return error.errno
    found = re.search(
        r"os error (\d+)", str(error)
    )  # the only place where safetensors keeps it
    return int(found[1]) if found else None


@contextmanager
def new_folder(path: Path) -> Iterator[None]:
    """Create a folder and remove it if anything fails inside. Raises InputError if it exists, and as `explained` if it
    cannot be created."""
    if path.exists():
        raise InputError(f"{path}: exists; choose another --out")
    with explained(path):
        path.mkdir(parents=True)
    try:
        yield
    except BaseException:
        shutil.rmtree(path)
        raise


@contextmanager
def remedy(usual: str, instead: str) -> Iterator[None]:
    """Name another remedy in errors inside. Raises InputError and RunError."""
    try:
        yield
    except (InputError, RunError) as error:
        if usual not in str(error):
            raise
        kind = InputError if isinstance(error, InputError) else RunError
        raise kind(str(error).replace(usual, instead)) from error
