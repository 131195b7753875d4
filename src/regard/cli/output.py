"""The output of commands."""

import os
import sys
from collections.abc import Iterable, Mapping


class OutputClosed(Exception):
    """The reader of standard output has closed it (`| head`)."""


def say(text: str) -> None:
    """Print a line on standard output and flush it. Raises OutputClosed when the reader has closed it."""
    try:
        print(_printable(text), flush=True)
    except BrokenPipeError as error:
        _silence()
        raise OutputClosed from error


def one_line(text: str) -> str:
    """The text with its white space, line ends too, as single spaces."""
    return " ".join(text.split())


def table(rows: Mapping[str, object]) -> str:
    """Names and values in two columns."""
    width = max(map(len, rows), default=0)
    return "\n".join(f"{name:{width}}  {_value(value)}" for name, value in rows.items())


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() or abs(value) >= 1000 else f"{value:.4g}"
    return str(value)


def _printable(text: str) -> str:
    """The text with escapes for characters that standard output cannot encode, such as a lone surrogate."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _silence() -> None:
    """Discard the buffer of the closed output, which would fail again when Python exits."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def warn(place: str, warnings: Iterable[str]) -> None:
    """Print the warnings of an example; `place` is where it stands."""
    for warning in warnings:
        print(f"regard: {place}: {warning}", file=sys.stderr)


def warn_of_unfinished(unfinished: int, predictions: int) -> None:
    """Print the number of unfinished predictions, if any."""
    if unfinished:
        print(f"regard: {unfinished} of {predictions} predictions reached the length limit unfinished", file=sys.stderr)


def warn_of_missing(missing: Mapping[str, int], predictions: int) -> None:
    """Print for each missing phrase the number of predictions that lack it."""
    for phrase, count in missing.items():
        print(
            f"regard: {count} of {predictions} predictions reached the length limit without the phrase {phrase!r}; "
            "try a larger --beam, or raise search.length_ratio or length_extra in the run file",
            file=sys.stderr,
        )
