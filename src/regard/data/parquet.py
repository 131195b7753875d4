"""Parquet tables, read in groups of rows by pyarrow."""

import importlib
from collections.abc import Iterator, Sequence
from typing import Any

from regard.data.bad_records import MissingColumns
from regard.errors import InputError

ENDING = "parquet"


def parquet_rows(path: str, columns: Sequence[str]) -> int:
    """The number of rows of a file. Raises InputError for one that is no sound Parquet file, and MissingColumns for
    columns that it lacks."""
    with _opened(path) as file:
        names = file.schema_arrow.names
        if lacking := [name for name in columns if name not in names]:
            raise MissingColumns(lacking, names, "header", f"{path}: ")
        return file.metadata.num_rows


def read_parquet_records(path: str, columns: Sequence[str], first: int, count: int) -> Iterator[dict[str, Any]]:
    """`count` rows from row `first` on as values by column; one group of rows in memory at a time. Raises InputError
    for a damaged file."""
    with _opened(path) as file:
        begin = 0
        for group in range(file.num_row_groups):
            size = file.metadata.row_group(group).num_rows
            start, stop = max(first - begin, 0), min(first + count - begin, size)
            if start < stop:
                yield from _group(file, path, group, columns).slice(start, stop - start).to_pylist()
            begin += size


def _group(file: Any, path: str, group: int, columns: Sequence[str]) -> Any:
    try:
        return file.read_row_group(group, columns=list(columns))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: group {group} of its rows is damaged ({_line(error)}); fetch it again") from error


def _opened(path: str) -> Any:
    parquet = importlib.import_module("pyarrow.parquet")
    try:
        return parquet.ParquetFile(path)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file; check the path") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: is no sound Parquet file ({_line(error)}); fetch it again") from error


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:100]
