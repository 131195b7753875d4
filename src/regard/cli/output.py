"""The output of commands."""

import codecs
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO, cast

from regard.errors import OutputClosed, RunError


class GuardedStream:
    """A standard stream whose failure is handled once, wherever something is written.

    Afterwards it writes nowhere.
    """

    def __init__(self, stream: Any, failed: Callable[[OSError], None]) -> None:
        self._stream, self._failed = stream, failed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write as the stream does; an error is handled by `failed`."""
        return self._tried(lambda: self._stream.write(text)) or 0

    def flush(self) -> None:
        """Flush the stream; an error is handled by `failed`."""
        self._tried(self._stream.flush)

    def _tried(self, operation: Callable[[], int | None]) -> int | None:
        try:
            return operation()
        except OSError as error:
            nowhere = os.open(
                os.devnull, os.O_WRONLY
            )  # else the buffer would fail again when Python exits
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
            self._failed(error)
            return None


@contextmanager
def guard_streams() -> Iterator[None]:
    """Return the context of a command.

    Standard output raises OutputClosed when its reader is gone and RunError when it
    cannot be written; standard error falls silent instead, since training outlives
    those who watch it.
    """
    _fill()
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        output = GuardedStream(sys.stdout or nowhere, _output_failed)
        errors = GuardedStream(sys.stderr or nowhere, lambda error: None)
        with (
            redirect_stdout(cast(TextIO, output)),
            redirect_stderr(cast(TextIO, errors)),
        ):
            yield


def _output_failed(error: OSError) -> None:
    if isinstance(error, BrokenPipeError):
        raise OutputClosed(error.strerror) from error
    raise RunError(
        f"standard output cannot be written: {error.strerror}; give it another place"
    ) from error


def _fill() -> None:
    """Open closed descriptors of the standard streams, lest a file of the command gets the number of one."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number


def say(text: str) -> None:
    """Print a line on standard output and flush it."""
    print(_printable(text), flush=True)


def say_json(value: object) -> None:
    """Print a value as one line of JSON, with escapes for all but ASCII where standard output is not in UTF-8."""
    say(json.dumps(value, ensure_ascii=codecs.lookup(_encoding()).name != "utf-8"))


def one_line(text: str) -> str:
    """Return the text with its white space, line ends too, as single spaces."""
    return " ".join(text.split())


def table(rows: Mapping[str, object]) -> str:
    """Names and values in two columns."""
    width = max(map(len, rows), default=0)
    return "\n".join(f"{name:{width}}  {_value(value)}" for name, value in rows.items())


def format_columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells in columns below their headings."""
    lines = [header, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "  ".join(
            f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)
        ).rstrip()
        for line in lines
    )


def _value(value: object) -> str:
    if isinstance(value, float):
        return (
            f"{value:,.0f}"
            if value.is_integer() or abs(value) >= 1000
            else f"{value:.4g}"
        )
    return str(value)


def _printable(text: str) -> str:
    """Return the text with escapes for what standard output cannot encode."""
    return text.encode(_encoding(), "backslashreplace").decode(_encoding())


def _encoding() -> str:
    return getattr(sys.stdout, "encoding", None) or "utf-8"


def warn(place: str, warnings: Iterable[str]) -> None:
    """Print the warnings of an example; `place` is where it stands."""
    for warning in warnings:
        print(f"regard: {place}: {warning}", file=sys.stderr)


def warn_of_unfinished(unfinished: int, predictions: int) -> None:
    """Print the number of unfinished predictions, if any."""
    if unfinished:
        print(
            f"regard: {unfinished} of {predictions} predictions reached the length limit unfinished",
            file=sys.stderr,
        )


def warn_of_missing(missing: Mapping[str, int], predictions: int) -> None:
    """Print for each missing phrase the number of predictions that lack it."""
    for phrase, count in missing.items():
        print(
            f"regard: {count} of {predictions} predictions reached the length limit without the phrase {phrase!r}; "
            "try a larger --beam, or raise search.length_ratio or length_extra in the run file",
            file=sys.stderr,
        )
