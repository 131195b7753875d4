"""Tables that tests read."""

from pathlib import Path
from typing import Any

from regard.data.pairs import Pair
from regard.data.rows import Row
from regard.data.tables import stream_table


def read_table(path: str | Path, columns: Any, **options: Any) -> list[Row]:
    return list(stream_table(path, columns, **options))


def read_pairs(path: str | Path, columns: Any = ("source", "target"), **options: Any) -> list[Pair]:
    rows = stream_table(path, columns, **options)
    return [Pair(row.fields[0], row.fields[1], row.place, alternatives=row.alternatives) for row in rows]
