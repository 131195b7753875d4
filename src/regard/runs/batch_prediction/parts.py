"""The files of predictions: JSON lines or Parquet, whole or not there."""

import importlib
import json
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from regard.errors import InputError
from regard.extras import how_to_install
from regard.storage.atomic import replacing

PartFormat = Literal["jsonl", "parquet"]


def check_format(kind: PartFormat) -> None:
    """Raises InputError for a format whose library is not installed."""
    if kind == "parquet" and find_spec("pyarrow") is None:
        raise InputError(
            f"--format parquet needs pyarrow, which is not installed: {how_to_install('pyarrow')}"
        )


def write_part(
    path: Path, records: Sequence[Mapping[str, Any]], kind: PartFormat
) -> None:
    """Write records in their order. In Parquet a value that is no text, number or truth value is JSON in a text.
    Raises RunError as `replacing` does."""
    with replacing(path) as temporary:
        if kind == "parquet":
            _write_parquet(temporary, records)
            return
        with temporary.open("wb") as file:
            for record in records:
                line = json.dumps(record, ensure_ascii=False) + "\n"
                file.write(
                    line.encode("utf-8", "backslashreplace")
                )  # a lone surrogate as JSON escapes it


def _write_parquet(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    pa, parquet = (
        importlib.import_module("pyarrow"),
        importlib.import_module("pyarrow.parquet"),
    )
    names = list(dict.fromkeys(name for record in records for name in record))
    columns = {name: [_plain(record.get(name)) for record in records] for name in names}
    parquet.write_table(
        pa.table({name: _array(pa, values) for name, values in columns.items()}), path
    )


def _array(pa: Any, values: Sequence[Any]) -> Any:
    """A column; one of nothing is one of texts, as its type must not depend on the part."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        values = [None if value is None else float(value) for value in values]
    elif len(kinds) > 1:
        values = [
            value if value is None or isinstance(value, str) else json.dumps(value)
            for value in values
        ]
    return pa.array(values, type=None if kinds else pa.string())


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return (
        value
        if value is None or isinstance(value, bool | int | float)
        else json.dumps(value, ensure_ascii=False)
    )
