"""The rows read from one file, and what became of its bad records."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.errors import InputError

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Row:
    """The texts of a record that are read, in the order asked for; where it came from (`file:line`). Where the last was
    a list, its first is the field and `others` are the rest."""

    fields: tuple[str, ...]
    place: str
    others: tuple[str, ...] = ()
    listed: bool = False


class RowCollector:
    """Gathers rows. A bad record is an InputError naming file and line, or with `skip_bad` left out and counted."""

    def __init__(self, path: str | Path, skip_bad: bool):
        self.path, self.skip_bad = path, skip_bad
        self.rows: list[Row] = []
        self.skipped, self.first = 0, ""

    def add(self, number: int, fields: Sequence[str], others: Sequence[str] = (), *, listed: bool = False) -> None:
        self.rows.append(Row(tuple(fields), f"{self.path}:{number}", tuple(others), listed))

    def refuse(self, number: int, reason: str) -> None:
        message = f"{self.path}:{number}: {reason}"
        if not self.skip_bad:
            raise InputError(f"{message}; correct it, or leave such records out with skip_bad")
        self.skipped, self.first = self.skipped + 1, self.first or message

    def finish(self) -> list[Row]:
        total = len(self.rows) + self.skipped
        if not self.rows:
            detail = f", all skipped (first: {self.first})" if total else " below the header"
            raise InputError(f"{self.path}: no usable record: {total} records{detail}")
        if self.skipped:
            _log.warning("%s: skipped %d of %d records (first: %s)", self.path, self.skipped, total, self.first)
        return self.rows
