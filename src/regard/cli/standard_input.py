"""Standard input as texts, in chunks as it arrives.

And loading without garbage collection.
"""

import gc
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader

from regard.errors import InputError


@contextmanager
def pause_collection() -> Iterator[None]:
    """Pause the garbage collector while modules and a run are loaded.

    The loaded objects are excluded from later collections: scanning all of PyTorch's
    objects takes longer than a prediction.
    """
    searching = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if searching:
            gc.enable()


NAME = "standard input"
CHUNK = 256
"""The maximum of lines in a chunk."""


def standard_input() -> BufferedReader:
    """Return the bytes of standard input.

    Raises InputError when it is closed.
    """
    if sys.stdin is None:
        raise InputError(f"{NAME} is closed; give the texts as arguments")
    if sys.stdin.isatty():
        print("reading texts, one a line; Ctrl-D ends", file=sys.stderr)
    return sys.stdin.buffer  # type: ignore[return-value]


def iterate_chunks(
    stream: BufferedReader, longest: int | None = None, limit: int = CHUNK
) -> Iterator[list[str]]:
    r"""Return the lines of UTF-8 text that have arrived, at most `limit` at a time.

    Waits only when there are none.

    Only `\n` and `\r\n` end a line. Raises InputError for a line of more than `longest`
    characters, or one that is not text, once the lines before it are yielded.
    """
    from regard.data.files import DEFAULT_LIMITS

    longest = DEFAULT_LIMITS.max_line if longest is None else longest
    count, remainder = 0, b""
    ended = False
    while not ended:
        data = stream.read1(1 << 16)
        ended = not data
        *lines, remainder = (remainder + data).split(b"\n")
        if ended and remainder:
            lines, remainder = [remainder], b""
        ready: list[str] = []
        for number, raw in enumerate(lines, count + 1):
            fault, line = _decode(raw.removesuffix(b"\r"), number == 1, longest)
            if (fault or len(ready) == limit) and ready:
                yield ready
                ready = []
            if fault:
                raise InputError(f"{NAME}:{number}: {fault}")
            ready.append(line)
        if ready:
            yield ready
        count += len(lines)
        if len(remainder) > 4 * longest:  # no character takes more than four bytes
            raise InputError(f"{NAME}:{count + 1}: {_too_long(longest)}")


def iterate_texts(texts: Sequence[str]) -> Iterable[Sequence[str]]:
    """Return the texts, or else those of standard input in chunks."""
    return [texts] if texts else iterate_chunks(standard_input())


def _decode(raw: bytes, first: bool, longest: int) -> tuple[str, str]:
    """Return the fault of the line, empty for a valid one, and its text."""
    if b"\0" in raw:
        return f"NUL byte at byte {raw.index(0)} of the line; expected UTF-8 text", ""
    try:
        line = raw.decode("utf-8-sig" if first else "utf-8")
    except UnicodeDecodeError as error:
        return (
            f"byte 0x{raw[error.start]:02x} at byte {error.start} of the line is not UTF-8; convert the text",
            "",
        )
    return _too_long(longest) if len(line) > longest else "", line


def _too_long(longest: int) -> str:
    return f"line longer than {longest} characters; split it"
