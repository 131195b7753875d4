"""The folder of what is computed once and read by later starts.

It is `REGARD_CACHE`, or a folder in the user's cache.
"""

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.errors import InputError
from regard.extras import WINDOWS
from regard.storage.atomic import discard, explain_errors, remedy

VARIABLE = "REGARD_CACHE"
SOURCE, BEGUN = "source", "begun.json"
"""The folder of a set's examples, and the file in it that names their sources."""


def find_cache_folder() -> Path:
    """Return the folder, which need not exist.

    Raises:
        InputError: There is no home, and another user made its replacement.
    """
    if folder := os.environ.get(VARIABLE):
        return Path(folder)
    try:
        home = Path.home()
    except RuntimeError:  # a user whom the system does not know
        home = _make_temporary_home()
    if WINDOWS:
        data = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
        return data / "regard" / "cache"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "regard"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "regard"


def _make_temporary_home() -> Path:
    """Make a folder of this user's own, since others may write beside it."""
    if WINDOWS:
        return Path(tempfile.gettempdir())
    home = Path(tempfile.gettempdir(), f"regard-{os.getuid()}")
    with explain_errors(home):
        home.mkdir(mode=0o700, exist_ok=True)
    if home.lstat().st_uid != os.getuid():
        raise InputError(f"{home} belongs to another user; set {VARIABLE}")
    return home


def sets() -> Path:
    """Return the folder of encoded sets; each of its folders is one."""
    return find_cache_folder() / "sets"


def size_of(path: Path) -> int:
    """Return the bytes of a folder's files; 0 for one that does not exist."""
    return sum(item.stat().st_size for item in path.rglob("*") if item.is_file())


def describe() -> dict[str, str]:
    """Return the folder of the encoded sets, and each with its size and sources.

    One that is being built, or was interrupted, may have no sources yet.
    """
    rows = {}
    for folder in sorted(path for path in sets().glob("*") if path.is_dir()):
        try:
            begun = json.loads((folder / SOURCE / BEGUN).read_text(encoding="utf-8"))
            sources = ", ".join(name for name, *_ in begun["stamp"]["sources"])
        except (OSError, ValueError, LookupError, TypeError):
            sources = "unfinished"
        rows[folder.name] = f"{size_of(folder):,} bytes, {sources}"
    size = f"{size_of(sets()):,} bytes in {len(rows)} sets"
    return {"cache": str(sets()), "size": size} | rows


def clear() -> int:
    """Remove all sets and return their bytes; runs that have one open keep it."""
    size = size_of(sets())
    discard(sets())
    return size


@contextmanager
def name_cache_option() -> Iterator[None]:
    """Name the option of the cache in the remedies of errors inside."""
    with remedy(
        "choose another --out", f"choose another folder by --cache or {VARIABLE}"
    ):
        yield
