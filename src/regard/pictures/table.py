"""Weights as tables, .tsv or .jsonl."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.storage.atomic import replacing

TABLES = (".tsv", ".jsonl")
ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})


def write_table(
    path: Path | str, columns: Sequence[str], rows: Iterable[Sequence[Any]]
) -> Path:
    """Write rows to `path`, a .tsv with a header or a .jsonl, one in memory at a time. Numbers have six digits; tabs,
    line ends and backslashes of a .tsv are escaped.

    Raises InputError for another suffix or a missing directory, and RunError if the file cannot be written."""
    path = Path(path)
    if path.suffix.lower() not in TABLES:
        raise InputError(
            f"{path}: cannot write '{path.suffix}' tables; expected a name ending in {', '.join(TABLES)}"
        )
    if not path.parent.is_dir():
        raise InputError(f"{path}: no directory {path.parent}; create it first")
    tabbed = path.suffix.lower() == ".tsv"
    with (
        replacing(path) as part,
        part.open(
            "w", encoding="utf-8", errors="backslashreplace", newline="\n"
        ) as file,
    ):
        if tabbed:
            file.write("\t".join(columns) + "\n")
        for row in rows:
            file.write("\t".join(map(_cell, row)) if tabbed else _object(columns, row))
            file.write("\n")
    return path


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value.translate(ESCAPES)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _object(columns: Sequence[str], row: Sequence[Any]) -> str:
    values = (float(f"{each:.6g}") if isinstance(each, float) else each for each in row)
    return json.dumps(dict(zip(columns, values, strict=True)), ensure_ascii=False)
