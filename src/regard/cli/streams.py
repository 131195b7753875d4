"""The standard streams of a command: what it prints, and the texts that it reads."""

import codecs
import gc
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import BufferedReader
from typing import Any, TextIO, cast

from regard.errors import InputError, OutputClosed, RunError

STDIN = "standard input"
CHUNK = 256
"""The most lines in a chunk."""


class GuardedStream:
    """A standard stream whose failure is handled once, wherever something is written.

    Afterwards it writes nowhere.
    """

    def __init__(self, stream: Any, handle: Callable[[OSError], None]) -> None:
        self._stream, self._handle = stream, handle

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write as the stream does."""
        return self._try(lambda: self._stream.write(text)) or 0

    def flush(self) -> None:
        """Flush the stream."""
        self._try(self._stream.flush)

    def _try(self, operation: Callable[[], int | None]) -> int | None:
        try:
            return operation()
        except OSError as error:
            # else the buffer would fail again when Python exits
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
            self._handle(error)
            return None


@contextmanager
def guard_streams() -> Iterator[None]:
    """Guard the standard streams of a command.

    Standard output raises OutputClosed when its reader is gone and RunError when it
    cannot be written; standard error falls silent instead, since training outlives
    those who watch it.
    """

    def fail(error: OSError) -> None:
        if isinstance(error, BrokenPipeError):
            raise OutputClosed(error.strerror) from error
        raise RunError(
            f"standard output cannot be written: {error.strerror}; give it another place"
        ) from error

    # open closed descriptors, lest a file of the command gets the number of one
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        output = GuardedStream(sys.stdout or nowhere, fail)
        errors = GuardedStream(sys.stderr or nowhere, lambda error: None)
        with (
            redirect_stdout(cast(TextIO, output)),
            redirect_stderr(cast(TextIO, errors)),
        ):
            yield


def say(text: str) -> None:
    """Print a line on standard output, with escapes for what it cannot encode."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), flush=True)


def say_json(value: object) -> None:
    """Print a line of JSON, with escapes where standard output is not in UTF-8."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    say(json.dumps(value, ensure_ascii=codecs.lookup(encoding).name != "utf-8"))


def one_line(text: str) -> str:
    """Return the text with its white space, line ends too, as single spaces."""
    return " ".join(text.split())


def format_table(rows: Mapping[str, object]) -> str:
    """Return names and values in two columns."""
    width = max(map(len, rows), default=0)
    return "\n".join(f"{name:{width}}  {format_value(rows[name])}" for name in rows)


def format_columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return cells in columns below their headings."""
    columns = zip(header, *rows, strict=True)
    widths = [max(map(len, column)) for column in columns]
    lines = []
    for row in (header, *rows):
        cells = [f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def format_value(value: object) -> str:
    """Return a value in a cell."""
    if not isinstance(value, float):
        return str(value)
    is_long = value.is_integer() or abs(value) >= 1000
    return f"{value:,.0f}" if is_long else f"{value:.4g}"


def warn(place: str, warnings: Iterable[str]) -> None:
    """Print the warnings of an example at a place."""
    for warning in warnings:
        print(f"regard: {place}: {warning}", file=sys.stderr)


def warn_of_missing(missing: Mapping[str, int], predictions: int) -> None:
    """Print for each missing phrase the number of predictions that lack it."""
    for phrase, count in missing.items():
        print(
            f"regard: {count} of {predictions} predictions reached the length limit "
            f"without the phrase {phrase!r}; try a larger --beam, or raise "
            "search.length_ratio or length_extra in the run file",
            file=sys.stderr,
        )


@contextmanager
def pause_collection() -> Iterator[None]:
    """Pause the garbage collector while modules and a run are loaded.

    The loaded objects are excluded from later collections: scanning all of PyTorch's
    objects takes longer than a prediction.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


def open_standard_input() -> BufferedReader:
    """Return the bytes of standard input.

    Raises:
        InputError: It is closed.
    """
    if sys.stdin is None:
        raise InputError(f"{STDIN} is closed; give the texts as arguments")
    if sys.stdin.isatty():
        print("reading texts, one a line; Ctrl-D ends", file=sys.stderr)
    return cast(BufferedReader, sys.stdin.buffer)


def iterate_chunks(
    stream: BufferedReader, limit: int = CHUNK, max_line: int | None = None
) -> Iterator[list[str]]:
    r"""Return the lines of UTF-8 text that have arrived, at most `limit` at a time.

    It waits only when there are none. Only `\n` and `\r\n` end a line.

    Raises:
        InputError: A line is longer than `max_line` characters or not text; the lines
            before it are yielded first.
    """
    from regard.data.files import DEFAULT_LIMITS

    max_line = max_line or DEFAULT_LIMITS.max_line
    count, remainder, ended = 0, b"", False
    while not ended:
        data = stream.read1(1 << 16)
        ended = not data
        *lines, remainder = (remainder + data).split(b"\n")
        # no character takes more than four bytes
        if remainder and (ended or len(remainder) > 4 * max_line):
            lines, remainder = [*lines, remainder], b""
        ready: list[str] = []
        for line in lines:
            count += 1
            try:
                text = decode_line(line.removesuffix(b"\r"), count, max_line)
            except InputError:
                if ready:
                    yield ready
                raise
            ready.append(text)
            if len(ready) == limit:
                yield ready
                ready = []
        if ready:
            yield ready


def decode_line(line: bytes, number: int, max_line: int) -> str:
    """Return the text of a line of standard input.

    Raises:
        InputError: It is too long, or not UTF-8.
    """
    place = f"{STDIN}:{number}"
    too_long = InputError(f"{place}: line longer than {max_line} characters; split it")
    if len(line) > 4 * max_line:
        raise too_long
    if b"\0" in line:
        offset = line.index(0)
        raise InputError(f"{place}: NUL byte at byte {offset}; expected UTF-8 text")
    try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        byte = f"byte 0x{line[error.start]:02x} at byte {error.start} of the line"
        raise InputError(f"{place}: {byte} is not UTF-8; convert the text") from error
    if len(text) > max_line:
        raise too_long
    return text


def iterate_texts(texts: Sequence[str]) -> Iterable[Sequence[str]]:
    """Return the texts, or else those of standard input in chunks."""
    return [texts] if texts else iterate_chunks(open_standard_input())
