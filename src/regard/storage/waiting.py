"""A folder that several processes may build, one after the other."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.errors import InputError
from regard.storage.lock import Lock

PAUSE = 0.1
"""Seconds between two looks at the lock."""
log = logging.getLogger("regard")


@contextmanager
def waiting(folder: Path, what: str, does: str = "encodes it") -> Iterator[None]:
    """Hold the lock of a folder inside; wait while another process holds it, for what it `does`, which a line says.
    Raises InputError where it cannot be locked."""
    lock = _lock(folder, what, does)
    try:
        yield
    finally:
        lock.release()


def _lock(folder: Path, what: str, does: str) -> Lock:
    logged = False
    while True:
        try:
            return Lock(folder)
        except InputError as error:
            if not isinstance(error.__cause__, BlockingIOError | PermissionError):
                raise
            if not logged:
                log.info("%s: another process %s; waiting", what, does)
            logged = True
            time.sleep(PAUSE)
