"""The kinds of files that a value of a run file names, by which a dataclass recognises its own kind of data."""

from collections.abc import Callable, Mapping
from pathlib import Path, PurePath
from typing import Any, Literal

from regard.config.registry import plugins_of

Kind = Literal["folder", "file", "table", "tables", "two files", "idx", "npz"]
TABLES = frozenset({"tsv", "csv", "jsonl", "json", "memory"})


def is_folder(value: Any) -> bool:
    """Whether a value names a folder that there is."""
    return isinstance(value, str) and Path(value).is_dir()


def suffix(path: str | Path) -> str:
    """The ending of a file's name in small letters, without .gz and without the dot."""
    return PurePath(str(path).lower().removesuffix(".gz")).suffix.removeprefix(".")


def is_table(value: Any) -> bool:
    """Whether a value names a table by its ending."""
    ending = suffix(value) if isinstance(value, str) else ""
    return ending in TABLES or (bool(ending) and ending in plugins_of("regard.readers"))


FILES: Mapping[Kind, Callable[[Any], bool]] = {
    "folder": is_folder,
    "file": lambda value: isinstance(value, str),
    "table": is_table,
    "tables": lambda value: isinstance(value, list) and all(map(is_table, value)),
    "two files": lambda value: isinstance(value, list) and len(value) == 2,
    "idx": lambda value: isinstance(value, str) and "idx" in PurePath(value).name,
    "npz": lambda value: isinstance(value, str) and value.endswith(".npz"),
}


def recognises(schema: Any, value: Any) -> bool:
    """Whether a value names files of a kind that the dataclass reads: its `recognised`, a tuple of kinds."""
    return any(FILES[kind](value) for kind in getattr(schema, "recognised", ()))
