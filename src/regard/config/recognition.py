"""The kinds of files that a value of a run file names, by which a dataclass recognises its own kind of data."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePath
from typing import Any, Literal

from regard.config.registry import plugins_of
from regard.config.yaml_nodes import Node

Kind = Literal["folder", "file", "table", "tables", "two files", "idx", "npz", "shards"]
RECOGNISED = "train"
"""The key by whose value, from an option, a dataclass `recognises` its own kind of data."""
LONGEST = 1 << 16
"""The bytes of a first line that are searched for tabs."""
TABLES = frozenset({"tsv", "csv", "jsonl", "json", "parquet", "arrow", "memory"})
COMPRESSED = (".gz", ".zst")
"""The endings of compressed files."""


def is_folder(value: Any) -> bool:
    """Whether a value names a folder that there is."""
    return isinstance(value, str) and Path(value).is_dir()


def compression(path: object) -> str:
    """The ending of a compressed file's name in small letters, or nothing."""
    name = str(path).lower()
    return next((ending for ending in COMPRESSED if name.endswith(ending)), "")


def suffix(path: str | Path) -> str:
    """The ending of a file's name in small letters, without that of its compression and without the dot."""
    return PurePath(str(path).lower().removesuffix(compression(path))).suffix.removeprefix(".")


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
    "shards": lambda value: isinstance(value, str) and suffix(value) in ("tar", "parquet"),
}


WORDS: Mapping[Kind, tuple[str, str]] = {
    "two files": ("two text files", "[SOURCE, TARGET]"),
    "table": ("a table (.tsv, .csv, .jsonl or .json, also .gz)", "FILE"),
    "file": ("one file", "FILE"),
    "folder": ("a folder", "FOLDER"),
    "idx": ("a file of IDX", "FILE"),
    "npz": ("an .npz file", "FILE"),
    "shards": ("shards of images (.tar or .parquet)", "FILES"),
}
"""Kinds of files in words, and how a value names them."""


def in_words(schemas: Iterable[Any]) -> list[tuple[str, str]]:
    """The kinds of files that some dataclasses read, in words, and how a value names them."""
    kinds = dict.fromkeys(kind for schema in schemas for kind in getattr(schema, "recognised", ()))
    return [WORDS[kind] for kind in kinds if kind in WORDS]


def has_tabs(value: Any) -> bool:
    """Whether a value names a file whose first line has columns between tabs."""
    try:
        with open(value, "rb") as file:
            return b"\t" in file.readline(LONGEST)
    except (OSError, TypeError, ValueError):  # no file, which the reader of the data reports
        return False


def recognises(schema: Any, value: Any) -> bool:
    """Whether a value names files of a kind that the dataclass reads: its `recognised`, a tuple of kinds."""
    return any(FILES[kind](value) for kind in getattr(schema, "recognised", ()))


def recognised(node: Node, key: str, named: Mapping[str, Any]) -> Node:
    """The mapping, whose data an option names, with another name under `key` where the file's dataclass does not
    recognise these data and another one does."""
    entry, data = node.value.get(key), node.value[RECOGNISED]
    if entry is None or not entry.line or entry.value not in named:
        return node
    value = data.plain()
    fits = [name for name in dict.fromkeys([entry.value, *named]) if recognises(named[name], value)]
    if not fits or fits[0] == entry.value:
        return node
    return dataclasses.replace(node, value=node.value | {key: Node(fits[0], fits[0], data.file, 0, entry)})
