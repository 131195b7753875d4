r"""Text files as numbered lines: plain or gzip, UTF-8 only. Every error names its place.

Only `\n` and `\r\n` end a line. U+2028, a lone `\r` and a vertical tab stay inside it: parallel files are aligned by
line, and `str.splitlines` would break the alignment."""

import codecs
import io
from collections.abc import Generator, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from regard.config.recognition import SPREADSHEETS, suffix
from regard.data.limits import Limits
from regard.data.opening import DAMAGED, opened, skip, unreadable
from regard.errors import InputError

_WIDE_MARKS = (  # UTF-32 first: its little-endian mark begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
WORKBOOK = "a workbook of a spreadsheet; save its sheet as 'CSV UTF-8' in Excel"
_WORKBOOK_MARKS = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"
_COMPRESSED_MARKS = (
    (b"\x1f\x8b", "gzip", ".gz"),
    (b"\x28\xb5\x2f\xfd", "zstd", ".zst"),
)


DEFAULT_LIMITS = Limits()


class Position(NamedTuple):
    """A place between two lines of a file: the number of lines before it, and of bytes of the file's content."""

    lines: int = 0
    offset: int = 0


BEGINNING = Position()


class Line(NamedTuple):
    """A line without its end: its number from 1, and the offset of its first byte in the file's content."""

    number: int
    offset: int
    text: str


def numbered_lines(
    path: str | Path, limits: Limits = DEFAULT_LIMITS
) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, line without its end), with one line in memory at a time.

    Raises InputError if the file is missing, a directory, unreadable, empty or not UTF-8 (with the byte offset after
    decompression); if it has NUL bytes or a line longer than `limits` allow; or if it is a gzip file that is cut off
    or damaged, or larger than its bounds (`Limits.of`)."""
    return (
        (number, text) for number, _, text in _decoded_lines(path, limits, BEGINNING)
    )


def placed_lines(
    path: str | Path, limits: Limits = DEFAULT_LIMITS, start: Position = BEGINNING
) -> Generator[Line, None, None]:
    """The lines of a file from a position on; `close` closes the file. Raises InputError as `numbered_lines` does."""
    return (Line(*each) for each in _decoded_lines(path, limits, start))


def _decoded_lines(
    path: str | Path, limits: Limits, start: Position
) -> Iterator[tuple[int, int, str]]:
    number = 0
    with opened(path) as stream:
        for number, offset, raw in _raw_lines(stream, path, limits, start):
            line = _decode(raw, f"{path}:{number}", offset)
            if len(line) > limits.max_line:
                raise _too_long(path, number, limits)
            yield number, offset, line
    if number == 0 and not start.lines:
        raise InputError(f"{path}: the file is empty; expected lines of UTF-8 text")


def read_lines(path: str | Path, limits: Limits = DEFAULT_LIMITS) -> list[str]:
    """All lines of a file. Raises InputError as `numbered_lines` does, and if every line is blank."""
    lines = [line for _, line in numbered_lines(path, limits)]
    if not any(line.strip() for line in lines):
        raise _all_blank(path, len(lines))
    return lines


def with_text(path: str | Path, lines: Iterable[Line]) -> Iterator[Line]:
    """The lines of a file. Raises InputError if every one is blank."""
    blank: list[Line] = []
    found = iter(lines)
    for line in found:
        blank.append(line)
        if line.text.strip():
            return chain(blank, found)
    raise _all_blank(path, len(blank))


def count_lines(path: str | Path, limits: Limits = DEFAULT_LIMITS) -> int:
    """The number of lines of a file, one of them in memory at a time. Raises InputError as `read_lines` does."""
    count, blank = 0, True
    for _, line in numbered_lines(path, limits):
        count += 1
        blank = blank and not line.strip()
    if blank:
        raise _all_blank(path, count)
    return count


def _all_blank(path: str | Path, number: int) -> InputError:
    return InputError(f"{path}: {number} lines, all of them blank; expected text")


def _raw_lines(
    stream: io.BufferedReader, path: Path | str, limits: Limits, start: Position
) -> Iterator[tuple[int, int, bytes]]:
    """Yield (line number, byte offset of the line, bytes without the line's end or a byte order mark)."""
    most = (
        4 * limits.max_line + 3
    )  # no character takes more than four bytes, and two may end the line
    bounds = limits.of(path)
    number, offset = start
    if offset:
        _skip(stream, path, offset)
    while raw := _readline(stream, path, most, offset):
        number += 1
        mark = _skip_mark(raw, path) if number == 1 else 0
        if b"\0" in raw:
            raise InputError(_nul_message(raw, f"{path}:{number}", offset))
        if len(raw) >= most:
            raise _too_long(path, number, limits)
        bounds.check(f"{path}:{number}", offset + len(raw), number)
        content = raw[mark:].removesuffix(b"\n")
        if len(raw) > mark:
            yield (
                number,
                offset + mark,
                content.removesuffix(b"\r") if raw.endswith(b"\n") else content,
            )
        offset += len(raw)


def _readline(
    stream: io.BufferedReader, path: Path | str, most: int, offset: int
) -> bytes:
    try:
        return stream.readline(most)
    except DAMAGED as error:
        raise unreadable(path, offset, error) from error


def _skip(stream: io.BufferedReader, path: Path | str, offset: int) -> None:
    try:
        skip(stream, offset)
    except DAMAGED as error:
        raise unreadable(path, offset, error) from error


def _skip_mark(raw: bytes, path: Path | str) -> int:
    """The length of a UTF-8 byte order mark at the start of the file. Raises InputError for other encodings."""
    for mark, name in _WIDE_MARKS:
        if raw.startswith(mark):
            raise InputError(
                f"{path}: {name} text (byte order mark at byte offset 0); convert it to UTF-8"
            )
    for mark, name, ending in _COMPRESSED_MARKS:
        if raw.startswith(mark):
            raise InputError(
                f"{path}: {name} data at byte offset 0, but the name does not end in {ending}; rename it"
            )
    if raw.startswith(_WORKBOOK_MARKS) and suffix(path) in SPREADSHEETS:
        raise InputError(f"{path}: {WORKBOOK}")
    return len(codecs.BOM_UTF8) if raw.startswith(codecs.BOM_UTF8) else 0


def _nul_message(raw: bytes, place: str, offset: int) -> str:
    message = f"{place}: NUL byte at byte offset {offset + raw.index(0)}"
    every_other = max(raw[0::2].count(0), raw[1::2].count(0)) / (len(raw) / 2)
    if (
        every_other > 0.7
    ):  # Western text in UTF-16; other scripts have no zero bytes and fail as invalid UTF-8
        return f"{message}: this looks like UTF-16 without a byte order mark; convert it to UTF-8"
    return f"{message}; expected UTF-8 text"


def _decode(raw: bytes, place: str, offset: int) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        at = offset + error.start
        raise InputError(
            f"{place}: byte 0x{raw[error.start]:02x} at byte offset {at} is not UTF-8 (Latin-1, Excel's CSV?); convert "
            "it by `iconv -f cp1252 -t utf-8 IN > OUT`, or save it as 'CSV UTF-8' in Excel"
        ) from error


def _too_long(path: Path | str, number: int, limits: Limits) -> InputError:
    return InputError(
        f"{path}:{number}: line longer than {limits.max_line} characters (max_line); split it"
    )
