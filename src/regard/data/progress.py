"""The progress of work on rows: a bar on a terminal, a line now and then anywhere else."""

import logging
import sys
import time
from collections.abc import Iterable, Iterator
from types import TracebackType

from tqdm import tqdm

from regard.data.columns import Shard

EVERY = 10.0
"""Seconds between two lines."""
log = logging.getLogger("regard")


class Progress:
    """Rows done of `rows` (0: nobody knows how many), of which `done` were done before; `what` is the work, a verb
    first. A context; a `silent` one shows nothing."""

    def __init__(
        self, what: str, rows: int, done: int, *, silent: bool = False
    ) -> None:
        self.what, self.rows, self.first, self.done = what, rows, done, done
        self._began = self._last = time.monotonic()
        self._silent, terminal = silent, sys.stderr.isatty()
        hidden = silent or not terminal
        self._bar = tqdm(
            total=rows or None,
            initial=done,
            unit=" rows",
            desc=what,
            disable=hidden,
            leave=False,
        )

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._bar.close()

    def add(self, rows: int) -> None:
        """Count rows that this process did."""
        self._count(self.done + rows)

    def elsewhere(self, done: int) -> None:
        """Count the rows that all processes did, at least so many."""
        if done > self.done:
            self.first += (
                done - self.done
            )  # they say nothing about the speed of this process
            self._count(done)

    def _count(self, done: int) -> None:
        self._bar.update(done - self.done)
        self.done = done
        now = time.monotonic()
        if (
            self._bar.disable
            and not self._silent
            and now - self._last >= EVERY
            and done > self.first
        ):
            self._last = now
            speed = (done - self.first) / (now - self._began)
            rows, left = f"{done:,}", ""
            if self.rows:
                rows, left = (
                    f"{rows} of {self.rows:,}",
                    f", {max(0, self.rows - done) / speed:.0f} s left",
                )
            log.info("%s: %s rows, %s rows/s%s", self.what, rows, f"{speed:,.0f}", left)


def shown(shards: Iterable[Shard], what: str, rows: int, done: int) -> Iterator[Shard]:
    """The shards, with the rows that they make of `rows`, of which `done` are there already."""
    with Progress(f"encoding {what}", rows, done) as progress:
        for shard in shards:
            yield shard
            progress.add(len(shard))
