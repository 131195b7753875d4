"""Parquet tables, read in groups of rows, and Arrow streams, by pyarrow."""

import importlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from regard.data.bad_records import MissingColumns, Row, RowCollector
from regard.data.opening import opened
from regard.data.records import records_to_rows
from regard.errors import InputError

ENDING = "parquet"


def parquet_rows(path: str, columns: Sequence[str]) -> int:
    """The number of rows of a file. Raises InputError for one that is no sound Parquet file, and MissingColumns for
    columns that it lacks."""
    with opened_parquet(path) as file:
        names = file.schema_arrow.names
        if lacking := [name for name in columns if name not in names]:
            raise MissingColumns(lacking, names, "header", f"{path}: ")
        return file.metadata.num_rows


def read_parquet_records(path: str, columns: Sequence[str], first: int, count: int) -> Iterator[dict[str, Any]]:
    """`count` rows from row `first` on as values by column; one group of rows in memory at a time. Raises InputError
    for a damaged file."""
    with opened_parquet(path) as file:
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


@contextmanager
def opened_parquet(path: str) -> Iterator[Any]:
    """A file as a `ParquetFile` of pyarrow. Raises InputError for one that is no sound Parquet file."""
    parquet = importlib.import_module("pyarrow.parquet")
    with opened(path) as stream:
        try:
            file = parquet.ParquetFile(stream)
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: is no sound Parquet file ({_line(error)}); fetch it again") from error
        with file:
            yield file


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:100]


def read_parquet(
    path: str,
    columns: tuple[str, ...],
    *,
    skip_bad: bool = False,
    numbers: tuple[str, ...] = (),
    lists: tuple[str, ...] = (),
) -> list[Row]:
    """Read the columns of a Parquet file as `read_jsonl` reads keys. A missing value counts as one that the row lacks.
    Raises InputError as it does, and for a damaged file."""
    return list(stream_parquet(path, columns, skip_bad=skip_bad, numbers=numbers, lists=lists))


def stream_parquet(
    path: str,
    columns: tuple[str, ...],
    *,
    skip_bad: bool = False,
    numbers: tuple[str, ...] = (),
    lists: tuple[str, ...] = (),
) -> Iterator[Row]:
    """The rows of `read_parquet`, a group of them in memory at a time."""
    count = parquet_rows(path, columns)
    records = read_parquet_records(path, columns, 0, count)
    return records_to_rows(records, columns, RowCollector(path, skip_bad), numbers, lists)


def read_arrow(
    path: str,
    columns: tuple[str, ...],
    *,
    skip_bad: bool = False,
    numbers: tuple[str, ...] = (),
    lists: tuple[str, ...] = (),
) -> list[Row]:
    """Read the columns of an Arrow stream, the form of the shards of a data set that `datasets` saved, as
    `read_parquet`. Classes that it keeps as numbers are read by their names."""
    ipc = importlib.import_module("pyarrow").ipc
    try:
        with opened(path) as stream, ipc.open_stream(stream) as reader:
            names = class_names(reader.schema)
            if lacking := [name for name in columns if name not in reader.schema.names]:
                raise MissingColumns(lacking, reader.schema.names, "header", f"{path}: ")
            batches = [batch.select(list(columns)).to_pylist() for batch in reader]
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: is no sound Arrow stream ({_line(error)}); fetch it again") from error
    records = [_named(record, names) for batch in batches for record in batch]
    return list(records_to_rows(records, columns, RowCollector(path, skip_bad), numbers, lists))


def class_names(schema: Any) -> dict[str, list[str]]:
    """The names of classes by column, as `datasets` writes them beside its schema."""
    try:
        features = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
        return {name: each["names"] for name, each in features.items() if each.get("_type") == "ClassLabel"}
    except (ValueError, LookupError, TypeError, AttributeError):
        return {}


def _named(record: dict[str, Any], names: Mapping[str, list[str]]) -> dict[str, Any]:
    classes = {name: names[name][value] for name, value in record.items() if name in names and isinstance(value, int)}
    return record | classes
