"""SentencePiece's table of replacements (Kudo and Richardson 2018, 1808.06226, section 3.3): at each character, the
longest entry that the text continues with is replaced, and a character without an entry stays.

The precompiled form is the length of a double array, the array (Aoe 1989), and the replacements, each ended by a zero
byte. The keys of the array are UTF-8 bytes.
"""

import re
from array import array
from dataclasses import dataclass
from functools import cached_property
from itertools import product

HEAD, UNIT = 4, 4
"""Bytes of the array's length and of a unit of the array."""
LEAF, VALUE, LABEL = 1 << 8, (1 << 31) - 1, (1 << 31) | 255
"""In a unit: the bit of a node that ends a key, the bits of a value, and those of a label."""
PRINTABLE = [chr(code) for code in range(0x20, 0x7F)]
PLAIN = re.compile(r"[ -~]+(?=[ -~]|\Z)")
"""Printable ASCII before printable ASCII or the end: no combining mark follows."""
NOWHERE = re.compile(r"(?!)")
Span = tuple[int, int]


@dataclass(frozen=True)
class Replaced:
    """A text after replacement, and for each of its characters the span of the original text that it stands for."""

    text: str
    spans: list[Span]


class CharacterTable:
    """Replacements of sequences of characters, from their precompiled form; empty bytes are an empty table.

    Raises:
        ValueError: the bytes are no such table.
    """

    def __init__(self, compiled: bytes) -> None:
        size = int.from_bytes(compiled[:HEAD], "little")
        if compiled and (not size or size % UNIT or len(compiled) < HEAD + size):
            raise ValueError(
                f"its array has {size} of {len(compiled)} bytes; expected a multiple of {UNIT}"
            )
        self._texts = compiled[HEAD + size :]
        if compiled and not self._texts.endswith(b"\0"):
            raise ValueError("its last replacement has no end; is it cut off?")
        self._units = array("I", compiled[HEAD : HEAD + size])
        self._root = _children(0, self._units[0]) if self._units else 0

    def replace(self, text: str) -> Replaced:
        """Replace the longest entry at each character."""
        if not self._units:
            return Replaced(text, [(at, at + 1) for at in range(len(text))])
        parts: list[str] = []
        spans: list[Span] = []
        place = 0
        while place < len(text):
            plain = self._plain.match(text, place)
            if plain is not None:
                parts.append(plain.group())
                spans += [(at, at + 1) for at in range(place, plain.end())]
                place = plain.end()
                continue
            end, new = self._longest(text, place) or (place + 1, text[place])
            parts.append(new)
            spans += [(place, end)] * len(new)
            place = end
        return Replaced("".join(parts), spans)

    def _longest(self, text: str, start: int) -> tuple[int, str] | None:
        """The end of the longest entry that begins at `start`, and its replacement; None without one."""
        units, base, found = self._units, self._root, None
        for end in range(start, len(text)):
            unit = 0
            for byte in text[end].encode():
                place = base ^ byte
                if place >= len(units) or units[place] & LABEL != byte:
                    return found
                unit = units[place]
                base = _children(place, unit)
            if unit & LEAF and base < len(units):
                found = end + 1, self._text(units[base] & VALUE)
        return found

    def _text(self, place: int) -> str:
        return self._texts[
            place : self._texts.index(b"\0", min(place, len(self._texts) - 1))
        ].decode()

    @cached_property
    def _plain(self) -> re.Pattern[str]:
        """Characters that no entry has, which are searched in C; none if an entry has printable ASCII only."""
        pairs = ("".join(pair) for pair in product(PRINTABLE, repeat=2))
        own = any(self._longest(text, 0) is not None for text in (*PRINTABLE, *pairs))
        return NOWHERE if own else PLAIN


def _children(place: int, unit: int) -> int:
    """The place from which a node's children are counted."""
    return place ^ (unit >> 10) << ((unit & 1 << 9) >> 6)
