"""Pairs from the files that a command is given."""

from collections.abc import Sequence
from pathlib import Path

from regard.data import readers, tables
from regard.data.pair import Pair
from regard.errors import InputError


def read_pairs(files: Sequence[Path], columns: str, skip_bad: bool) -> list[Pair]:
    """The pairs of a source and a target file, or of one table. Raises InputError."""
    if len(files) > 2:
        raise InputError(f"{len(files)} files given; expected source and target text, or one table")
    file, other = files[0], files[-1]
    if len(files) == 2:
        return readers.read_parallel(file, other, skip_bad=skip_bad)
    if tables.suffix(file) not in tables.READERS:
        raise InputError(
            f"{file}: one file must be a table ({tables.KINDS}, or these with .gz); of plain text give two, source and "
            "target"
        )
    return readers.read_pairs(file, _columns(columns, tables.suffix(file)), skip_bad=skip_bad)


def _columns(columns: str, suffix: str) -> tuple:
    parts = [part.strip() for part in columns.split(",")]
    numbered = all(part.isdecimal() for part in parts)
    if len(parts) != 2 or not all(parts) or (numbered and suffix == ".jsonl"):
        kinds = "two names" if suffix == ".jsonl" else "two names or two numbers"
        raise InputError(f"--columns is {columns!r}; expected {kinds} with a comma between")
    return tuple(map(int, parts)) if numbered else tuple(parts)
