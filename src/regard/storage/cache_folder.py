"""The folder of what is computed once and read by later starts: `REGARD_CACHE`, or a folder in the user's cache."""

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from regard.storage.atomic import discard, remedy
from regard.system import WINDOWS

VARIABLE = "REGARD_CACHE"
OUT = "choose another --out"
SOURCE, BEGUN = "source", "begun.json"
"""The folder of a set's examples, and the file in it that names their sources."""


def cache_folder() -> Path:
    """The folder, which need not exist."""
    stated = os.environ.get(VARIABLE)
    if stated:
        return Path(stated)
    if WINDOWS:
        return (
            Path(os.environ.get("LOCALAPPDATA") or _home() / "AppData" / "Local")
            / "regard"
            / "cache"
        )
    if sys.platform == "darwin":
        return _home() / "Library" / "Caches" / "regard"
    return Path(os.environ.get("XDG_CACHE_HOME") or _home() / ".cache") / "regard"


def _home() -> Path:
    """The user's folder; for a user whom the system does not know, that of temporary files."""
    try:
        return Path.home()
    except RuntimeError:
        return Path(tempfile.gettempdir())


def sets() -> Path:
    """The folder of encoded sets; each of its folders is one."""
    return cache_folder() / "sets"


def size_of(path: Path) -> int:
    """The bytes of a folder's files; 0 for one that does not exist."""
    return sum(item.stat().st_size for item in path.rglob("*") if item.is_file())


@dataclass(frozen=True)
class CachedSet:
    """An encoded set: the name of its folder, its bytes, and the files that it was read from."""

    name: str
    size: int
    sources: str


def contents() -> list[CachedSet]:
    """The encoded sets. One that is being built, or was interrupted, may have no sources yet."""
    folders = (
        sorted(path for path in sets().iterdir() if path.is_dir())
        if sets().is_dir()
        else []
    )
    return [
        CachedSet(folder.name, size_of(folder), _sources(folder)) for folder in folders
    ]


def _sources(folder: Path) -> str:
    try:
        begun = json.loads((folder / SOURCE / BEGUN).read_text(encoding="utf-8"))
        return ", ".join(name for name, *_ in begun["stamp"]["sources"])
    except (OSError, ValueError, LookupError, TypeError):
        return "unfinished"


def clear() -> int:
    """Remove all sets and return their bytes. Runs that have one open keep it until they end."""
    size = size_of(sets())
    discard(sets())
    return size


@contextmanager
def named_remedy() -> Iterator[None]:
    """Name the option of the cache in the remedies of errors inside. Raises InputError and RunError."""
    with remedy(OUT, f"choose another folder by --cache or {VARIABLE}"):
        yield
