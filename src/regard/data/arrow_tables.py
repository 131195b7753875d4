"""Tables in Parquet files and Arrow streams, read within the limits of files."""

import importlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

from regard.data.files import DAMAGED, FileLimits, open_file
from regard.data.records import get_value, name_classes
from regard.data.rows import MissingColumns
from regard.errors import InputError

PARQUET = "parquet"
BATCH = 1 << 12
"""The rows of a Parquet table that are in memory at once."""
SHARED = re.compile("dictionary|run_end_encoded|view")
"""Types whose rows can share a value."""


@contextmanager
def explain_damage(path: str) -> Iterator[None]:
    """Raise InputError for what pyarrow raises inside for a damaged file."""
    pyarrow = importlib.import_module("pyarrow")
    faults = ValueError, LookupError, OverflowError, MemoryError
    try:
        yield
    except InputError:
        raise
    except (pyarrow.ArrowException, *DAMAGED, *faults) as error:
        reason = " ".join(str(error).split())[:100]
        raise InputError(
            f"{path}: is no sound Parquet file or Arrow stream ({reason}); fetch it again"
        ) from error


@contextmanager
def open_parquet(path: str) -> Iterator[Any]:
    """Open a file as a `ParquetFile` of pyarrow.

    Raises:
        InputError: The file is damaged, also where it is read inside.
    """
    parquet = importlib.import_module("pyarrow.parquet")
    with (
        explain_damage(path),
        open_file(path) as stream,
        parquet.ParquetFile(stream) as file,
    ):
        yield file


def parquet_rows(path: str, columns: Sequence[str]) -> int:
    """Return the number of rows of a file that has the columns.

    Raises:
        InputError: The file is damaged, or lacks one of the columns.
    """
    with open_parquet(path) as file:
        find_fields(path, file.schema_arrow, columns)
        return file.metadata.num_rows


def parquet_records(
    path: str, columns: Sequence[str] | None = None, first: int = 0
) -> Iterator[Mapping[str, Any]]:
    """Yield the rows from row `first` on, with a batch in memory at a time.

    Classes that are numbers with names are read by name.

    Raises:
        InputError: The file is damaged or larger than its limits, or lacks a column.
    """
    with open_parquet(path) as file:
        schema = file.schema_arrow
        keys = columns or schema.names
        fields = find_fields(path, schema, keys)
        names = class_names(schema, keys)
        row = 0
        groups = list(range(file.num_row_groups))
        size_of = file.metadata.row_group
        while groups and row + size_of(groups[0]).num_rows <= first:
            row += size_of(groups.pop(0)).num_rows
        _check_size(file, path, groups)
        batches = file.iter_batches(BATCH, row_groups=groups, columns=fields)
        yield from islice(read_batches(path, batches, names, row), first - row, None)


def read_batches(
    path: str, batches: Iterable[Any], names: Mapping[str, list[str]], rows: int = 0
) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of batches behind a number of rows, within the file's limits."""
    bounds = FileLimits().of(path)
    content = 0
    for batch in batches:
        # Conversion of a damaged batch would read beyond its buffers.
        batch.validate(full=True)
        rows += batch.num_rows
        content += batch.nbytes
        bounds.check(path, content, rows)
        # Rows can share a value, so that they are larger than the batch.
        is_shared = SHARED.search(str(batch.schema.types))
        step = 1 if is_shared else max(1, batch.num_rows)
        for start in range(0, batch.num_rows, step):
            for record in batch.slice(start, step).to_pylist():
                if is_shared:
                    content += sum(len(str(value)) for value in record.values())
                    bounds.check(path, content, rows)
                yield name_classes(record, names)


def values_in_group(file: Any, path: str, group: int, column: str) -> Sequence[Any]:
    """Return a column's values in a group of rows of an open file.

    Raises:
        InputError: The file is larger than its limits.
    """
    (field,) = find_fields(path, file.schema_arrow, [column])
    _check_size(file, path, [group])
    table = file.read_row_group(group, columns=[field], use_threads=False)
    table.validate(full=True)
    return [get_value(record, column) for record in table.to_pylist()]


def arrow_records(
    path: str, columns: Sequence[str] | None = None
) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of an Arrow stream, the format of `datasets`.

    Raises:
        InputError: The file is damaged or larger than its limits, or lacks a column.
    """
    ipc = importlib.import_module("pyarrow").ipc
    with (
        explain_damage(path),
        open_file(path) as stream,
        ipc.open_stream(stream) as reader,
    ):
        keys = columns or reader.schema.names
        fields = find_fields(path, reader.schema, keys)
        names = class_names(reader.schema, keys)
        batches = (batch.select(fields) for batch in reader)
        yield from read_batches(path, batches, names)


def _check_size(file: Any, path: str, groups: Sequence[int]) -> None:
    """Raise InputError for a group that says it expands to more than allowed."""
    bounds = FileLimits().of(path)
    for group in groups:
        bounds.check(path, file.metadata.row_group(group).total_byte_size)


def find_fields(path: str, schema: Any, columns: Sequence[str]) -> list[str]:
    """Return the fields of a schema that have columns; of `outer.inner` the outer one.

    Raises:
        MissingColumns: A column has no field.
    """
    fields = {
        name: name if name in schema.names else name.partition(".")[0]
        for name in columns
    }
    missing = [name for name, field in fields.items() if field not in schema.names]
    if missing:
        raise MissingColumns(path, missing, schema.names)
    return list(dict.fromkeys(fields.values()))


def class_names(schema: Any, columns: Sequence[str]) -> dict[str, list[str]]:
    """Return the names of classes by column, as `datasets` writes them."""
    try:
        about = json.loads((schema.metadata or {})[b"huggingface"])
        classes = dict(_find_classes(about["info"]["features"]))
    except (ValueError, LookupError, TypeError, AttributeError):
        return {}
    return {column: classes[column] for column in columns if column in classes}


def _find_classes(
    features: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[str, list[str]]]:
    for name, feature in features.items():
        while isinstance(feature.get("feature"), dict):
            feature = feature["feature"]  # of a list what its items are
        if feature.get("_type") == "ClassLabel":
            yield prefix + name, feature["names"]
        elif not isinstance(feature.get("_type"), str):
            yield from _find_classes(feature, f"{prefix}{name}.")
