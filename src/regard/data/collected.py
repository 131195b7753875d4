"""The pairs read from one file, and what became of its bad records."""

import logging
from pathlib import Path

from regard.data.pair import Pair
from regard.errors import InputError

_log = logging.getLogger(__name__)


class Collected:
    """Gathers pairs. A bad record is an InputError naming file and line, or with `skip_bad` left out and counted."""

    def __init__(self, path: str | Path, skip_bad: bool):
        self.path, self.skip_bad = path, skip_bad
        self.pairs: list[Pair] = []
        self.skipped, self.first = 0, ""

    def add(self, number: int, source: str, target: str, others: tuple[str, ...] = ()) -> None:
        self.pairs.append(Pair(source, target, f"{self.path}:{number}", others=others))

    def refuse(self, number: int, reason: str) -> None:
        message = f"{self.path}:{number}: {reason}"
        if not self.skip_bad:
            raise InputError(f"{message}; correct it, or leave such records out with skip_bad")
        self.skipped, self.first = self.skipped + 1, self.first or message

    def finish(self) -> list[Pair]:
        total = len(self.pairs) + self.skipped
        if not self.pairs:
            detail = f", all skipped (first: {self.first})" if total else " below the header"
            raise InputError(f"{self.path}: no usable record: {total} records{detail}")
        if self.skipped:
            _log.warning("%s: skipped %d of %d records (first: %s)", self.path, self.skipped, total, self.first)
        return self.pairs
