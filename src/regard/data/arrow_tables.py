"""Parquet tables, read in batches of rows, and Arrow streams, by pyarrow.

A column `review.body` is `body` in the struct `review`. Damaged files end in an error,
since each batch is validated, and small ones that expand to more than `Limits` allow.
"""

import importlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from regard.data.files import DAMAGED, Limits, open_file
from regard.data.records import name_classes, records_to_rows
from regard.data.rows import MissingColumns, Row, RowCollector
from regard.errors import InputError

PARQUET = "parquet"
BATCH = 1 << 12
"""The rows of a Parquet table that are in memory at once."""


def parquet_rows(path: str, columns: Sequence[str]) -> int:
    """Return the number of rows of a file.

    Raises:
        InputError: The file is no sound Parquet file.
        MissingColumns: The file lacks one of the columns.
    """
    with open_parquet(path) as file:
        find_columns(path, file.schema_arrow, columns)
        return file.metadata.num_rows


def read_parquet_records(
    path: str, columns: Sequence[str], first: int, count: int
) -> Iterator[dict[str, Any]]:
    """Yield `count` rows from row `first` on as records, a batch in memory at a time.

    Classes that are numbers with names are read by name.

    Raises:
        InputError: The file is damaged, or larger than its limits.
        MissingColumns: The file lacks one of the columns.
    """
    with open_parquet(path) as file:
        stored = find_columns(path, file.schema_arrow, columns)
        names = _class_names_of(columns, file.schema_arrow)
        groups = _groups_of_rows(file, first, count)
        skipped = max(0, first - groups[0][1]) if groups else 0
        remaining = count
        for batch in _batches(file, path, [group for group, _ in groups], stored):
            rows = batch.slice(skipped, remaining).to_pylist()
            skipped = max(0, skipped - batch.num_rows)
            remaining -= len(rows)
            for row in rows:
                yield name_classes(row, names) if names else row


def parquet_records(path: str) -> Iterator[dict[str, Any]]:
    """Yield all rows with all columns, as `read_parquet_records` does."""
    with open_parquet(path) as file:
        columns, count = file.schema_arrow.names, file.metadata.num_rows
    return read_parquet_records(path, columns, 0, count)


def values_in_group(file: Any, path: str, group: int, column: str) -> Any:
    """Return a column's values in a group of rows of an open file.

    Raises:
        InputError: The file is damaged, or larger than its limits.
    """
    (stored,) = find_columns(path, file.schema_arrow, [column])
    _check_size(file, path, [group])
    try:
        table = file.read_row_group(group, columns=[stored], use_threads=False)
        table.validate(full=True)
    except _faults() as error:
        raise _damaged_rows(path, error) from error
    array = table.column(0)
    if stored not in file.schema_arrow.names:
        for _ in stored.split(".")[1:]:
            (array,) = array.flatten()  # a struct, of which one field is read
    return array


@contextmanager
def open_parquet(path: str) -> Iterator[Any]:
    """Open a file as a `ParquetFile` of pyarrow.

    Raises:
        InputError: The file is no sound Parquet file.
    """
    parquet = importlib.import_module("pyarrow.parquet")
    with open_file(path) as stream:
        try:
            file = parquet.ParquetFile(stream)
        except _faults() as error:
            raise InputError(
                f"{path}: is no sound Parquet file ({_one_line(error)}); fetch it again"
            ) from error
        with file:
            yield file


def read_parquet(
    path: str,
    columns: tuple[str, ...],
    *,
    skip_bad: bool = False,
    numbers: tuple[str, ...] = (),
    lists: tuple[str, ...] = (),
) -> Iterator[Row]:
    """Yield the rows of a Parquet file as `read_jsonl` does.

    A missing value counts as a key that the row lacks.

    Raises:
        InputError: A row is bad, or the file is damaged or larger than its limits.
    """
    count = parquet_rows(path, columns)
    records = read_parquet_records(path, columns, 0, count)
    collector = RowCollector(path, skip_bad)
    return records_to_rows(records, columns, collector, numbers, lists)


def read_arrow(
    path: str,
    columns: tuple[str, ...],
    *,
    skip_bad: bool = False,
    numbers: tuple[str, ...] = (),
    lists: tuple[str, ...] = (),
) -> Iterator[Row]:
    """Yield the rows of an Arrow stream, the format of `datasets`, as `read_parquet`.

    Raises:
        InputError: A row is bad, or the file is damaged.
    """
    records = _arrow_records(path, columns)
    collector = RowCollector(path, skip_bad)
    return records_to_rows(records, columns, collector, numbers, lists)


def _arrow_records(path: str, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    ipc = importlib.import_module("pyarrow").ipc
    try:
        with open_file(path) as stream, ipc.open_stream(stream) as reader:
            names = _class_names_of(columns, reader.schema)
            stored = find_columns(path, reader.schema, columns)
            known = reader.schema.names
            outer = [n if n in known else n.partition(".")[0] for n in stored]
            for batch in reader:
                # conversion of a damaged batch would read beyond its buffers
                batch.validate(full=True)
                for record in batch.select(list(dict.fromkeys(outer))).to_pylist():
                    yield name_classes(record, names)
    except InputError:
        raise
    except _faults() as error:
        raise InputError(
            f"{path}: is no sound Arrow stream ({_one_line(error)}); fetch it again"
        ) from error


def _groups_of_rows(file: Any, first: int, count: int) -> list[tuple[int, int]]:
    """Return the groups that have some of the rows, each with its first row."""
    groups, begin = [], 0
    for group in range(file.num_row_groups):
        size = file.metadata.row_group(group).num_rows
        if begin < first + count and begin + size > first:
            groups.append((group, begin))
        begin += size
    return groups


def _batches(
    file: Any, path: str, groups: Sequence[int], columns: Sequence[str]
) -> Iterator[Any]:
    """Yield validated batches of rows, as many bytes as the file's limits allow."""
    _check_size(file, path, groups)
    bounds, size, rows = Limits().of_packed(path, is_streamed=True), 0, 0
    try:
        batches = file.iter_batches(BATCH, row_groups=list(groups), columns=columns)
        for batch in batches:
            batch.validate(full=True)
            size += batch.nbytes
            rows += batch.num_rows
            bounds.check(path, size, rows)
            yield batch
    except InputError:
        raise
    except _faults() as error:
        raise _damaged_rows(path, error) from error


def _check_size(file: Any, path: str, groups: Sequence[int]) -> None:
    """Raise InputError for groups that say that they expand to more than allowed."""
    sizes = (file.metadata.row_group(group).total_byte_size for group in groups)
    Limits().of_packed(path, is_streamed=True).check(path, max(sizes, default=0))


def _faults() -> tuple[type[Exception], ...]:
    """Return what pyarrow raises for a damaged file."""
    pyarrow = importlib.import_module("pyarrow")
    damaged = ValueError, LookupError, OverflowError, MemoryError
    return (pyarrow.ArrowException, *DAMAGED, *damaged)


def _damaged_rows(path: str, error: Exception) -> InputError:
    return InputError(
        f"{path}: its rows are damaged ({_one_line(error)}); fetch it again"
    )


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:100]


def find_columns(path: str, schema: Any, columns: Sequence[str]) -> list[str]:
    """The columns or fields of structs that have these columns: of an item of a list, as `answers.0`, the list. Raises
    MissingColumns for columns that a schema lacks."""
    found = {column: _find_column(schema, column) for column in columns}
    if lacking := [column for column, stored in found.items() if not stored]:
        raise MissingColumns(
            lacking,
            [name for field in schema for name in _leaves(field)],
            "header",
            f"{path}: ",
        )
    return list(found.values())


def _find_column(schema: Any, column: str) -> str:
    """The column or field that has a column; empty for none."""
    if column in schema.names:
        return column
    types = importlib.import_module("pyarrow").types
    found, fields, listed = [], {field.name: field for field in schema}, False
    for step in column.split("."):
        if step not in fields:
            return ".".join(found) if listed and step.isdecimal() else ""
        found.append(step)
        inner = _struct_fields(fields[step])
        listed = types.is_nested(fields[step].type) and not inner
        fields = {item.name: item for item in inner}
    return ".".join(found)


def _leaves(field: Any) -> Iterator[str]:
    """The names of the fields in a struct, as `outer.inner`; of another field its own."""
    fields = _struct_fields(field)
    yield from (
        (f"{field.name}.{name}" for item in fields for name in _leaves(item))
        if fields
        else (field.name,)
    )


def _struct_fields(field: Any) -> list[Any]:
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
