"""One writer for a folder."""

import os
from pathlib import Path
from typing import ClassVar

from regard.errors import InputError
from regard.storage.atomic import explained
from regard.storage.exclusive import exclude
from regard.system import CLOSED_IN_CHILDREN

NAME = ".lock"


class Lock:
    """A lock on a folder, or on a part of it by `name`, from the constructor to `release`; the kernel releases it when
    the process ends.

    A record lock never excludes its own process, hence the set.
    Raises InputError if another process, or this one, holds it, and RunError on a full disk.
    """

    _held: ClassVar[set[Path]] = set()

    def __init__(self, folder: Path, name: str = NAME) -> None:
        self.path = folder.resolve() / name
        if self.path in Lock._held:
            raise InputError(
                f"{folder}: in use by process {os.getpid()} (this one); choose another --out"
            )
        with explained(self.path):
            self._descriptor = os.open(
                self.path, os.O_RDWR | os.O_CREAT | CLOSED_IN_CHILDREN, 0o644
            )
        try:
            exclude(self._descriptor)
        except OSError as error:
            holder = (
                os.read(self._descriptor, 20).decode("ascii", "replace").strip()
                or "unknown"
            )
            os.close(self._descriptor)
            if not isinstance(error, BlockingIOError | PermissionError):
                raise InputError(
                    f"{folder}: cannot be locked ({error.strerror}); choose another --out"
                ) from error
            raise InputError(
                f"{folder}: in use by process {holder}; wait for it or choose another --out"
            ) from error
        Lock._held.add(self.path)
        try:
            with explained(self.path):
                os.ftruncate(self._descriptor, 0)
                os.write(self._descriptor, f"{os.getpid()}\n".encode())
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Let others write. The file stays: without it two processes could lock two files of one name."""
        if self.path in Lock._held:
            Lock._held.remove(self.path)
            os.close(self._descriptor)
