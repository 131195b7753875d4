"""Parquet tables, read in groups of rows, and Arrow streams, by pyarrow. A column `review.body` is `body` in the struct
`review`."""

import importlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from regard.data.bad_records import MissingColumns, Row, RowCollector
from regard.data.opening import opened
from regard.data.records import records_to_rows, with_class_names
from regard.errors import InputError

ENDING = "parquet"


def parquet_rows(path: str, columns: Sequence[str]) -> int:
    """The number of rows of a file. Raises InputError for one that is no sound Parquet file, and MissingColumns for
    columns that it lacks."""
    with opened_parquet(path) as file:
        stored_columns(path, file.schema_arrow, columns)
        return file.metadata.num_rows


def read_parquet_records(
    path: str, columns: Sequence[str], first: int, count: int
) -> Iterator[dict[str, Any]]:
    """`count` rows from row `first` on as records, whose columns `records.value_at` reads; one group of rows in
    memory at a time. Classes that are numbers with names are read by name. Raises InputError for a damaged file, and
    MissingColumns as `parquet_rows`."""
    with opened_parquet(path) as file:
        begin, stored = 0, stored_columns(path, file.schema_arrow, columns)
        names = _class_names_of(columns, file.schema_arrow)
        for group in range(file.num_row_groups):
            size = file.metadata.row_group(group).num_rows
            start, stop = max(first - begin, 0), min(first + count - begin, size)
            if start < stop:
                rows = (
                    _group(file, path, group, stored)
                    .slice(start, stop - start)
                    .to_pylist()
                )
                yield from (
                    (with_class_names(row, names) for row in rows) if names else rows
                )
            begin += size


def parquet_records(path: str) -> Iterator[dict[str, Any]]:
    """All rows with all columns, as `read_parquet_records`."""
    with opened_parquet(path) as file:
        columns, count = file.schema_arrow.names, file.metadata.num_rows
    return read_parquet_records(path, columns, 0, count)


def values_in_group(file: Any, path: str, group: int, column: str) -> Any:
    """The array of a column's values in a group of rows of an open file. Raises InputError for a damaged one."""
    (stored,) = stored_columns(path, file.schema_arrow, [column])
    array = _group(file, path, group, [stored], use_threads=False).column(0)
    for _ in [] if stored in file.schema_arrow.names else stored.split(".")[1:]:
        (array,) = array.flatten()  # a struct, of which one field is read
    return array


def _group(
    file: Any, path: str, group: int, columns: list[str], *, use_threads: bool = True
) -> Any:
    try:
        return file.read_row_group(group, columns=columns, use_threads=use_threads)
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path}: group {group} of its rows is damaged ({_line(error)}); fetch it again"
        ) from error


@contextmanager
def opened_parquet(path: str) -> Iterator[Any]:
    """A file as a `ParquetFile` of pyarrow. Raises InputError for one that is no sound Parquet file."""
    parquet = importlib.import_module("pyarrow.parquet")
    with opened(path) as stream:
        try:
            file = parquet.ParquetFile(stream)
        except (OSError, ValueError) as error:
            raise InputError(
                f"{path}: is no sound Parquet file ({_line(error)}); fetch it again"
            ) from error
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
    return list(
        stream_parquet(path, columns, skip_bad=skip_bad, numbers=numbers, lists=lists)
    )


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
    return records_to_rows(
        records, columns, RowCollector(path, skip_bad), numbers, lists
    )


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
            names, stored = (
                _class_names_of(columns, reader.schema),
                stored_columns(path, reader.schema, columns),
            )
            outer = [
                each if each in reader.schema.names else each.partition(".")[0]
                for each in stored
            ]
            batches = [
                batch.select(list(dict.fromkeys(outer))).to_pylist() for batch in reader
            ]
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{path}: is no sound Arrow stream ({_line(error)}); fetch it again"
        ) from error
    records = [with_class_names(record, names) for batch in batches for record in batch]
    return list(
        records_to_rows(records, columns, RowCollector(path, skip_bad), numbers, lists)
    )


def stored_columns(path: str, schema: Any, columns: Sequence[str]) -> list[str]:
    """The columns or fields of structs that have these columns: of an item of a list, as `answers.0`, the list. Raises
    MissingColumns for columns that a schema lacks."""
    found = {column: _stored(schema, column) for column in columns}
    if lacking := [column for column, stored in found.items() if not stored]:
        raise MissingColumns(
            lacking,
            [name for each in schema for name in _leaves(each)],
            "header",
            f"{path}: ",
        )
    return list(found.values())


def _stored(schema: Any, column: str) -> str:
    """The column or field that has a column; empty for none."""
    if column in schema.names:
        return column
    types = importlib.import_module("pyarrow").types
    found, fields, listed = [], {each.name: each for each in schema}, False
    for step in column.split("."):
        if step not in fields:
            return ".".join(found) if listed and step.isdecimal() else ""
        found.append(step)
        inner = _inside(fields[step])
        listed = types.is_nested(fields[step].type) and not inner
        fields = {each.name: each for each in inner}
    return ".".join(found)


def _leaves(field: Any) -> Iterator[str]:
    """The names of the fields in a struct, as `outer.inner`; of another field its own."""
    fields = _inside(field)
    yield from (
        (f"{field.name}.{name}" for each in fields for name in _leaves(each))
        if fields
        else (field.name,)
    )


def _inside(field: Any) -> list[Any]:
    """The fields of a struct; none of another type."""
    types = importlib.import_module("pyarrow").types
    return (
        [field.type.field(place) for place in range(field.type.num_fields)]
        if types.is_struct(field.type)
        else []
    )


def class_names(schema: Any) -> dict[str, list[str]]:
    """The names of classes by column, as `datasets` writes them beside its schema."""
    try:
        return dict(
            _classes(
                json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))["info"][
                    "features"
                ]
            )
        )
    except (ValueError, LookupError, TypeError, AttributeError):
        return {}


def _class_names_of(columns: Sequence[str], schema: Any) -> dict[str, list[str]]:
    return {
        name: names for name, names in class_names(schema).items() if name in columns
    }


def _classes(features: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    for name, outer in features.items():
        each = outer
        while isinstance(each, dict) and isinstance(
            each.get("feature"), dict
        ):  # a list
            each = each["feature"]
        if isinstance(each, dict) and each.get("_type") == "ClassLabel":
            yield name, each["names"]
        elif isinstance(each, dict) and not isinstance(
            each.get("_type"), str
        ):  # a struct
            yield from ((f"{name}.{inner}", names) for inner, names in _classes(each))
