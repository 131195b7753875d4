"""Limits of the files that are read: what a small file may expand to in memory."""

import math
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from regard.config.recognition import compression
from regard.data.opening import size_of_file
from regard.data.remote import is_remote
from regard.errors import InputError

FREE = 1 << 22
"""Bytes of content to which every compressed file may expand, whatever its own size."""


def _setting(name: str, default: int) -> int:
    """The whole number in the environment's variable `name`. Raises InputError for anything else."""
    text = os.environ.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and int(text)):
        raise InputError(
            f"{name} is {text!r}; expected a whole number from 1, such as {default}"
        )
    return int(text)


@dataclass(frozen=True)
class Limits:
    """Limits of a file, each from its variable of the environment by default: characters in a line (REGARD_MAX_LINE);
    and of a compressed file or a stream, whose end nobody knows before: bytes of content (REGARD_MAX_DECOMPRESSED),
    lines (REGARD_MAX_LINES) and bytes of content for each byte of the file (REGARD_MAX_RATIO), from 4 MiB on."""

    max_line: int = field(default_factory=lambda: _setting("REGARD_MAX_LINE", 1 << 20))
    max_decompressed: int = field(
        default_factory=lambda: _setting("REGARD_MAX_DECOMPRESSED", 1 << 30)
    )
    max_lines: int = field(
        default_factory=lambda: _setting("REGARD_MAX_LINES", 10_000_000)
    )
    max_ratio: int = field(default_factory=lambda: _setting("REGARD_MAX_RATIO", 100))

    def of(self, path: Path | str) -> "Bounds":
        """The bounds of the file at `path`: none for a plain file, which is as large as it is. Raises OSError, and
        InputError for a URL that cannot be read."""
        name = str(path)
        if not is_remote(name) and not stat.S_ISREG(os.stat(name).st_mode):
            return Bounds(self.max_decompressed, self.max_lines, self)
        if not compression(name) and not name.lower().endswith(".npz"):
            return Bounds(math.inf, math.inf, self)
        expanded = max(FREE, self.max_ratio * size_of_file(name))
        return Bounds(min(expanded, self.max_decompressed), self.max_lines, self)


@dataclass(frozen=True)
class Bounds:
    """The bytes of content and the lines that are read of one file."""

    content: int | float
    lines: int | float
    limits: Limits

    def check(self, place: str, content: int, lines: int = 0) -> None:
        """Raise InputError, which names the variable to set, for more content or lines than are read."""
        if lines > self.lines:
            what, name = f"has more than {self.lines:,} lines", "REGARD_MAX_LINES"
        elif content > self.content:
            short = self.content < self.limits.max_decompressed
            name = "REGARD_MAX_RATIO" if short else "REGARD_MAX_DECOMPRESSED"
            what = f"expands to more than {self.content:,} bytes" + (
                f" ({self.limits.max_ratio} for each of the file)" if short else ""
            )
        else:
            return
        raise InputError(
            f"{place}: {what}; raise {name} or unpack it if it is meant to be so large"
        )
