"""Kinds of files that the value of a run file names, by their names and first lines."""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath
from typing import Any, Literal

from regard.extras import find_plugins

Kind = Literal[
    "folder",
    "folders",
    "folder of a table",
    "folder of tables",
    "file",
    "table",
    "tables",
    "chat",
    "two files",
    "idx",
    "npz",
    "shards",
]
LONGEST_LINE = 1 << 16
"""The bytes of a line that are searched for columns."""
COMPARED_LINES = 20
"""The first lines of a .txt file by which it is a table or none."""
COLUMN_NAME = re.compile(r"\w[\w.-]*( [\w.-]+){0,2}")
"""A name of a column: up to three words."""
JOINED, MARK = "src-tgt", "|||"
"""The kind of tables whose lines are `source ||| target`, as fast_align reads them."""
FASTTEXT, LABEL = "fasttext", "__label__"
"""The kind of tables whose lines are `__label__NAME text`, as fastText reads them."""
TABLES = frozenset(
    {"tsv", "csv", "jsonl", "json", "parquet", "arrow", "memory", "tmx"}
) | {JOINED, FASTTEXT}
TEXTS = frozenset({"txt", ""})
"""The endings of files that are tables by their lines, or none."""
LABELLED = TEXTS | {"train", "valid", "test", "ft"}
"""The endings of files that are tables if each line begins with a label."""
LANGUAGES = re.compile("[a-z]{2,3}-[a-z]{2,3}")
"""The ending of a file in two languages, such as fast_align's `text.fr-en`."""
FOREIGN = frozenset({"xlsx", "xls", "ods", "zip"})
"""The endings of files that are meant as tables and are not read."""
COMPRESSED = (".gz", ".zst", ".xz", ".bz2")
"""The endings of compressed files."""


def compression(path: object) -> str:
    """Return the ending of a compressed file's name, or nothing."""
    name = str(path).lower()
    return next((ending for ending in COMPRESSED if name.endswith(ending)), "")


def suffix(path: str | Path) -> str:
    """Return the ending of a file's name, without its compression and the dot."""
    name = str(path).lower().removesuffix(compression(path))
    return PurePath(name).suffix.removeprefix(".")


def is_table_name(value: Any) -> bool:
    """Return whether a value names a table by its ending."""
    ending = suffix(value) if isinstance(value, str) else ""
    return ending in TABLES or ending in find_plugins(READERS)


READERS = "regard.readers"
"""The entry points of other packages that read tables, by endings."""


def is_table(value: Any) -> bool:
    """Return whether a value names a table, a text file that is one, or a workbook."""
    is_foreign = isinstance(value, str) and suffix(value) in FOREIGN
    return is_table_name(value) or is_foreign or bool(detect_text_table(value))


def detect_text_table(value: Any) -> str:
    """Return the kind of table that a .txt file is by its first lines.

    Returns:
        `fasttext` if all lines begin with `__label__`, `src-tgt` if all have one `|||`,
        `tsv` if they have equally many tabs, `csv`
        if names between commas stand above lines with as many commas; else nothing.
    """
    ending = suffix(value) if isinstance(value, str | Path) else "none"
    is_text = ending in LABELLED or LANGUAGES.fullmatch(ending)
    if not is_text or not os.path.isfile(value):  # a pipe is read once
        return ""
    lines = read_first_lines(value)
    if lines and all(line.startswith(LABEL) for line in lines):
        return FASTTEXT
    if len(lines) < 2 or not all(map(str.strip, lines)):
        return ""
    if ending not in LABELLED - TEXTS and all(line.count(MARK) == 1 for line in lines):
        return JOINED
    if ending not in TEXTS:
        return ""
    if lines[0].count("\t") and len({line.count("\t") for line in lines}) == 1:
        return "tsv"
    names = lines[0].split(",")
    has_names = all(COLUMN_NAME.fullmatch(name.strip()) for name in names)
    has_columns = all(line.count(",") >= len(names) - 1 for line in lines)
    return "csv" if len(names) > 1 and has_names and has_columns else ""


def read_first_lines(path: str | Path) -> list[str]:
    """Return the first lines of a file; none of a file that cannot be read."""
    try:
        with open(path, "rb") as file:
            lines = [file.readline(LONGEST_LINE) for _ in range(COMPARED_LINES)]
    except (OSError, ValueError):  # the reader of the data reports it
        return []
    return [
        line.decode("utf-8-sig", "replace").rstrip("\r\n") for line in lines if line
    ]


def is_folder(value: Any) -> bool:
    """Return whether a value names a folder that exists."""
    return isinstance(value, str) and os.path.isdir(value)


def is_folder_of_table(value: Any) -> bool:
    """Return whether a folder has exactly one table, and at most one folder."""
    if not is_folder(value):
        return False
    entries = [path for path in Path(value).iterdir() if path.name[0] != "."]
    tables = [path for path in entries if is_table_name(path.name) and path.is_file()]
    return len(tables) == 1 and sum(path.is_dir() for path in entries) <= 1


def is_chat(value: Any) -> bool:
    """Return whether a value names a file of JSON lines with the messages of chats."""
    has_lines = isinstance(value, str) and suffix(value) == "jsonl"
    line = next(iter(read_first_lines(value)), "") if has_lines else ""
    return re.search(r'"(messages|conversations)"\s*:\s*\[', line) is not None


FILES: Mapping[Kind, Callable[[Any], bool]] = {
    "folder": is_folder,
    "folders": lambda value: is_folder(value) and not is_folder_of_table(value),
    "folder of a table": is_folder_of_table,
    "folder of tables": lambda value: (
        is_folder(value) and any(map(is_table_name, os.listdir(value)))
    ),
    "file": lambda value: isinstance(value, str),
    "table": is_table,
    "tables": lambda value: isinstance(value, list) and all(map(is_table, value)),
    "chat": is_chat,
    "two files": lambda value: isinstance(value, list) and len(value) == 2,
    "idx": lambda value: isinstance(value, str) and "idx" in PurePath(value).name,
    "npz": lambda value: isinstance(value, str) and value.endswith(".npz"),
    "shards": lambda value: (
        isinstance(value, str) and suffix(value) in ("tar", "parquet")
    ),
}
"""A test of each kind of files."""


def recognizes(schema: Any, value: Any) -> bool:
    """Return whether a value names files of a kind in a dataclass's `recognised`."""
    return any(FILES[kind](value) for kind in getattr(schema, "recognised", ()))
