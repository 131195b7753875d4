"""The rows of one file, and the policy for its bad records."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.errors import InputError

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Row:
    """The texts of a record in the order of the requested columns, and its `place`, `file:line`. If the last value is a
    list, its first item is the field and `others` are the rest."""

    fields: tuple[str, ...]
    place: str
    others: tuple[str, ...] = ()
    listed: bool = False


class RowCollector:
    """Collects rows. A bad record raises InputError with file and line, or with `skip_bad` is counted and skipped."""

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
