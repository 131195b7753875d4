"""Rows of tables as examples of any run, by the keys of its `inputs`."""

import json
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np

from regard.errors import InputError
from regard.tasks.run import Run

SOURCE = "source"


@runtime_checkable
class Columned(Protocol):
    """A `data:` section that names the columns of a table."""

    @property
    def columns(self) -> Mapping[str, str | int]: ...


def input_columns(run: Run[Any, Any]) -> dict[str, str | int]:
    """Return the column of each of a run's inputs.

    That of the data which it was trained on, or one of the input's name. An optional
    input without a column there has none.
    """
    data = getattr(run.config, "data", None)
    current = dict(data.columns) if isinstance(data, Columned) else {}
    if len(run.inputs) == 1 and SOURCE in current:
        current[next(iter(run.inputs))] = current[SOURCE]
    optional = {key for key, kind in run.inputs.items() if kind == str | None}
    return {
        key: current.get(key, key)
        for key in run.inputs
        if key in current or key not in optional
    }


def choose_columns(
    current: Mapping[str, str | int], names: str | None
) -> dict[str, str | int]:
    """The columns with other names, or numbers from 1, with commas between, in their order. Raises InputError for
    another number of them."""
    if names is None:
        return dict(current)
    parts = [part.strip() for part in names.split(",")]
    if len(parts) != len(current) or not all(parts):
        expected = ",".join(item.upper() for item in current)
        raise InputError(
            f"columns is {names!r}; expected {len(current)} names or numbers, {expected}"
        )
    numbered = all(part.isdecimal() for part in parts)
    return dict(zip(current, map(int, parts) if numbered else parts, strict=True))


def row_example(
    run: Run[Any, Any], content: str | Mapping[str, Any], place: str
) -> Any:
    """Return the example of a row.

    Of a line as `run.parse`, of values as `run.example`. A text in place of a file's
    bytes is its path, an array is an image. Raises InputError with the place.
    """
    if isinstance(content, str):
        return run.parse(content, place)
    values = {key: content.get(key) for key in run.inputs}
    kinds = run.inputs.items()
    for key, kind in kinds:
        value = values[key]
        if isinstance(value, np.ndarray):
            return value
        if kind is bytes and isinstance(value, str) and len(values) == 1:
            return run.parse(value, place)
        if kind in (str, bytes) and not isinstance(value, kind):
            raise InputError(
                f"{place}: {key!r} is {type(value).__name__}, expected {_describe_kind(kind)}"
            )
    if any(kind not in (str, bytes, str | None) for _, kind in kinds):
        return run.parse(json.dumps(values), place)
    try:
        return run.example(values)
    except InputError as error:
        raise InputError(f"{place}: {error}") from error


def _describe_kind(kind: Any) -> str:
    return "text" if kind is str else "the path of a file, or its bytes"
