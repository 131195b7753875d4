"""Replacing a folder of ours by a new one of the same name, without losing it if the new one fails."""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.errors import InputError
from regard.storage import lock
from regard.storage.atomic import discard, explained
from regard.storage.manifest import NAME as MANIFEST
from regard.storage.manifest import Manifest

ASIDE = ".replaced"
log = logging.getLogger("regard")


@contextmanager
def replaced(path: Path, ours: "Callable[[Path], bool]", what: str) -> Iterator[None]:
    """Move a folder aside while another is written in its place, and remove it afterwards. If that fails, it comes
    back, unless a part of the new folder remains.

    Raises InputError for a link, a folder that is not `ours`, which is `what` may be replaced, and one in use.
    """
    if not path.exists() and not path.is_symlink():
        yield
        return
    if path.is_symlink() or not path.is_dir() or not ours(path):
        raise InputError(
            f"{path}: --overwrite replaces {what} only, which this is not; choose another --out"
        )
    aside = path.with_name(path.name + ASIDE)
    if aside.exists():
        raise InputError(
            f"{aside}: a replaced folder is still here; remove it, or rename it to keep it"
        )
    if is_run(path):
        lock.Lock(path).release()  # raises where another process writes it
    with explained(path):
        os.replace(path, aside)
    try:
        yield
    except BaseException:
        if path.exists():
            log.warning("the former folder is in %s", aside)
        else:
            os.replace(aside, path)
        raise
    discard(aside)


def is_run(path: Path) -> bool:
    """Whether a folder is a run."""
    return (path / MANIFEST).is_file() and Manifest.read(path).content == "run"
