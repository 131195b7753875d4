"""Rows of tables as examples of any run, by the keys of its `inputs`."""

import json
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np

from regard.errors import InputError
from regard.tasks.run import Run

Columns = Mapping[str, str | int]


@runtime_checkable
class Columned(Protocol):
    """A `data:` section that names the columns of a table."""

    @property
    def columns(self) -> Columns: ...


def input_columns(run: Run[Any, Any]) -> dict[str, str | int]:
    """Return the column of each of a run's inputs.

    That of the data which it was trained on, or one of the input's name. An optional
    input without a column there has none.
    """
    data = getattr(run.config, "data", None)
    columns = dict(data.columns) if isinstance(data, Columned) else {}
    if len(run.inputs) == 1 and "source" in columns:
        columns[next(iter(run.inputs))] = columns["source"]
    return {
        key: columns.get(key, key)
        for key, kind in run.inputs.items()
        if key in columns or kind != str | None
    }


def choose_columns(columns: Columns, names: str | None) -> dict[str, str | int]:
    """Return the columns with other names, or numbers from 1, with commas between.

    Raises:
        InputError: There is another number of names than of columns.
    """
    if names is None:
        return dict(columns)
    parts: list[Any] = [part.strip() for part in names.split(",")]
    if len(parts) != len(columns) or not all(parts):
        expected = ",".join(map(str.upper, columns))
        raise InputError(
            f"columns is {names!r}; expected {len(columns)} names or numbers, {expected}"
        )
    if all(map(str.isdecimal, parts)):
        parts = list(map(int, parts))
    return dict(zip(columns, parts, strict=True))


def row_example(
    run: Run[Any, Any], content: str | Mapping[str, Any], place: str
) -> Any:
    """Return the example of a row: of a line, or of values by the keys of the inputs.

    A text in place of a file's bytes is its path, an array is an image.

    Raises:
        InputError: The row is no example; the error has the place.
    """
    if isinstance(content, str):
        return run.parse(content, place)
    values = {key: content.get(key) for key in run.inputs}
    for key, kind in run.inputs.items():
        value = values[key]
        if isinstance(value, np.ndarray):
            return value
        if kind is bytes and isinstance(value, str) and len(values) == 1:
            return run.parse(value, place)
        if kind in (str, bytes) and not isinstance(value, kind):
            expected = "text" if kind is str else "the path of a file, or its bytes"
            raise InputError(
                f"{place}: {key!r} is {type(value).__name__}, expected {expected}"
            )
    if not {*run.inputs.values()} <= {str, bytes, str | None}:
        return run.parse(json.dumps(values), place)
    try:
        return run.example(values)
    except InputError as error:
        raise InputError(f"{place}: {error}") from error
