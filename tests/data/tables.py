"""Tables that tests read."""

from pathlib import Path
from typing import Any

from regard.data.pairs import Pair
from regard.data.rows import Row
from regard.data.tables import Tabular


def read_table(path: str | Path, columns: Any, **options: Any) -> list[Row]:
    names = {key: options.pop(key) for key in ("numbers", "lists") if key in options}
    keys = {f"column{number}": column for number, column in enumerate(columns)}
    return list(Tabular(**options).stream_rows(str(path), keys, **names))


def read_pairs(path: str | Path, columns: Any = ("source", "target"), **options: Any) -> list[Pair]:
    rows = read_table(path, columns, **options)
    return [Pair(row.fields[0], row.fields[1], row.place, alternatives=row.alternatives) for row in rows]
