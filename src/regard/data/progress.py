"""The progress of building a table: a bar on a terminal, a line now and then anywhere else."""

import logging
import sys
import time
from collections.abc import Iterable, Iterator

from tqdm import tqdm

from regard.data.columns import Shard

EVERY = 10.0
"""Seconds between two lines."""
log = logging.getLogger("regard")


def shown(shards: Iterable[Shard], what: str, rows: int, done: int) -> Iterator[Shard]:
    """The shards, with the rows that they make of `rows`, of which `done` are there already."""
    began = last = time.monotonic()
    first = done
    with tqdm(
        total=rows, initial=done, unit=" rows", desc=f"encoding {what}", disable=not sys.stderr.isatty(), leave=False
    ) as bar:
        for shard in shards:
            yield shard
            done += len(shard)
            bar.update(len(shard))
            now = time.monotonic()
            if bar.disable and now - last >= EVERY:
                last = now
                speed = (done - first) / (now - began)
                log.info(
                    "encoding %s: %s of %s rows, %s rows/s, %.0f s left",
                    what, f"{done:,}", f"{rows:,}", f"{speed:,.0f}", (rows - done) / speed,
                )  # fmt: skip
