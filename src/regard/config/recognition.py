"""The kinds of files that a value of a run file names, by which a dataclass recognises its own kind of data."""

import dataclasses
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePath
from typing import Any, Literal

from regard.config.registry import plugins_of
from regard.config.yaml_nodes import Node

Kind = Literal[
    "folder",
    "folders",
    "folder of a table",
    "folder of tables",
    "file",
    "table",
    "tables",
    "two files",
    "idx",
    "npz",
    "shards",
]
RECOGNISED = "train"
"""The key by whose value, from an option, a dataclass `recognises` its own kind of data."""
LONGEST = 1 << 16
"""The bytes of a line that are searched for columns."""
COMPARED = 20
"""The first lines of a .txt file by which it is a table or none."""
NAME = re.compile(r"\w[\w.-]*( [\w.-]+){0,2}")
"""A name of a column: up to three words."""
TABLES = frozenset({"tsv", "csv", "jsonl", "json", "parquet", "arrow", "memory"})
TEXTS = frozenset({"txt", ""})
"""The endings of files that are tables by their lines, or none; a download may have no ending."""
SPREADSHEETS = frozenset({"xlsx", "xls", "ods"})
"""The endings of workbooks, which are meant as tables and are not read."""
COMPRESSED = (".gz", ".zst")
"""The endings of compressed files."""


def is_folder(value: Any) -> bool:
    """Whether a value names a folder that there is."""
    return isinstance(value, str) and Path(value).is_dir()


def has_table(value: Any) -> bool:
    """Whether a value names a folder with exactly one table in it and at most one folder, that of the table's files."""
    if not is_folder(value):
        return False
    entries = [each for each in Path(value).iterdir() if not each.name.startswith(".")]
    tables = [each for each in entries if named_table(each.name) and each.is_file()]
    return len(tables) == 1 and sum(each.is_dir() for each in entries) <= 1


def compression(path: object) -> str:
    """The ending of a compressed file's name in small letters, or nothing."""
    name = str(path).lower()
    return next((ending for ending in COMPRESSED if name.endswith(ending)), "")


def suffix(path: str | Path) -> str:
    """The ending of a file's name in small letters, without that of its compression and without the dot."""
    return PurePath(
        str(path).lower().removesuffix(compression(path))
    ).suffix.removeprefix(".")


def named_table(value: Any) -> bool:
    """Whether a value names a table by its ending."""
    ending = suffix(value) if isinstance(value, str) else ""
    return ending in TABLES or (bool(ending) and ending in plugins_of("regard.readers"))


def is_table(value: Any) -> bool:
    """Whether a value names a table by its ending, or a `text_table`, or a workbook."""
    workbook = isinstance(value, str) and suffix(value) in SPREADSHEETS
    return named_table(value) or workbook or bool(text_table(value))


def text_table(value: Any) -> str:
    """The kind of table that a file is which ends in .txt or has no ending, by its first lines: `tsv` if all have
    equally many tabs, `csv` if names between commas stand above lines with as many commas; else nothing."""
    regular = (
        isinstance(value, str | Path)
        and suffix(value) in TEXTS
        and os.path.isfile(value)
    )  # a pipe is read once
    lines = first_lines(value) if regular else []
    if len(lines) < 2 or not all(map(str.strip, lines)):
        return ""
    if lines[0].count("\t") and len({line.count("\t") for line in lines}) == 1:
        return "tsv"
    names = lines[0].split(",")
    named = len(names) > 1 and all(NAME.fullmatch(name.strip()) for name in names)
    return (
        "csv"
        if named and all(line.count(",") >= len(names) - 1 for line in lines[1:])
        else ""
    )


def first_lines(path: str | Path) -> list[str]:
    """The first lines of a file, without their ends; none of a file that cannot be read."""
    try:
        with open(path, "rb") as file:
            lines = [file.readline(LONGEST) for _ in range(COMPARED)]
    except (OSError, ValueError):  # no file, which the reader of the data reports
        return []
    return [
        line.decode("utf-8-sig", "replace").rstrip("\r\n") for line in lines if line
    ]


FILES: Mapping[Kind, Callable[[Any], bool]] = {
    "folder": is_folder,
    "folders": lambda value: is_folder(value) and not has_table(value),
    "folder of a table": has_table,
    "file": lambda value: isinstance(value, str),
    "table": is_table,
    "folder of tables": lambda value: (
        is_folder(value) and any(map(named_table, os.listdir(value)))
    ),
    "tables": lambda value: isinstance(value, list) and all(map(is_table, value)),
    "two files": lambda value: isinstance(value, list) and len(value) == 2,
    "idx": lambda value: isinstance(value, str) and "idx" in PurePath(value).name,
    "npz": lambda value: isinstance(value, str) and value.endswith(".npz"),
    "shards": lambda value: (
        isinstance(value, str) and suffix(value) in ("tar", "parquet")
    ),
}


WORDS: Mapping[Kind, tuple[str, str]] = {
    "two files": ("two text files", "[SOURCE, TARGET]"),
    "table": ("a table (.tsv, .csv, .jsonl or .json, also .gz)", "FILE"),
    "file": ("one file", "FILE"),
    "folder": ("a folder", "FOLDER"),
    "folders": ("a folder", "FOLDER"),
    "idx": ("a file of IDX", "FILE"),
    "npz": ("an .npz file", "FILE"),
    "shards": ("shards of images (.tar or .parquet)", "FILES"),
}
"""Kinds of files in words, and how a value names them."""


def in_words(schemas: Iterable[Any]) -> list[tuple[str, str]]:
    """The kinds of files that some dataclasses read, in words, and how a value names them."""
    kinds = dict.fromkeys(
        kind for schema in schemas for kind in getattr(schema, "recognised", ())
    )
    return [WORDS[kind] for kind in kinds if kind in WORDS]


def has_tabs(value: Any) -> bool:
    """Whether a value names a file whose first line has columns between tabs."""
    return isinstance(value, str) and "\t" in "".join(first_lines(value)[:1])


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
    if (
        isinstance(value, int)
        and getattr(named[entry.value], "recognised", ())
        and Path(data.text).exists()
    ):
        value = (
            data.text
        )  # no number of examples, since the file's dataclass reads files
    fits = [
        name
        for name in dict.fromkeys([entry.value, *named])
        if recognises(named[name], value)
    ]
    if not fits or fits[0] == entry.value:
        return node
    return dataclasses.replace(
        node, value=node.value | {key: Node(fits[0], fits[0], data.file, 0, entry)}
    )
