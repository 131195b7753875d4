"""Visible forms of labels: invisible characters are escaped, and no label disturbs its neighbours."""

import unicodedata
from collections.abc import Iterable
from typing import Literal

from regard.text.kind import NAMED

SIGNS = {"</s>": "∎", "<s>": "▷"}
"""The signs of special tokens: the end of a text, and its start."""
MEANINGS = {
    SIGNS["</s>"]: "the end of a text",
    SIGNS["<s>"]: "the start of a text",
    "·": "a blank",
    "␣": "a blank",
    NAMED["\n"]: "a line break",
    NAMED["\t"]: "a tab",
}
"""The meaning of each sign in a label."""
_JOINERS = "\u200c\u200d"
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def visible(label: str) -> str:
    """The label with outer spaces as ␣ and invisible characters (controls, bidi marks, surrogates) as escapes; for the
    start or the end of a text its sign.

    Zero-width joiners stay, because shaping needs them."""
    if label in SIGNS:
        return SIGNS[label]
    inner = label.strip(" ")
    before = len(label) - len(label.lstrip(" "))
    after = len(label) - len(inner) - before
    return "␣" * before + "".join(map(_visible, inner)) + "␣" * after


def flat_title(title: str) -> str:
    """A title and its details on one line, for metadata."""
    return visible(", ".join(title.split("\n")))


def drawable(label: str, longest: int = 40) -> str:
    """`visible(label)`, shortened with '…' beyond `longest` characters.

    Variation selectors are removed: they choose a glyph and have none, so fonts may lack them.
    """
    shown = "".join(char for char in visible(label) if not "\ufe00" <= char <= "\ufe0f")
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def distinct(label: str, longest: int) -> str:
    """`drawable(label)`, but with the '…' in the middle: names that differ only at the end still differ."""
    shown = drawable(label, longest=max(len(visible(label)), 1))
    before = longest // 2
    return (
        shown
        if len(shown) <= longest
        else f"{shown[:before]}…{shown[len(shown) - (longest - 1 - before) :]}"
    )


def meanings(*sides: Iterable[str]) -> str:
    """The meaning of the signs at the end of labels, in a line; empty without one."""
    last = {visible(label)[-1:] for side in sides for label in side}
    shown = [(sign, meaning) for sign, meaning in MEANINGS.items() if sign in last]
    return ", ".join(f"{sign} {meaning}" for sign, meaning in shown)


def columns(label: str) -> int:
    """The width in character cells: 2 for East Asian wide characters, 0 for combining marks, 1 for others."""
    return sum(
        2
        if unicodedata.east_asian_width(char) in "WF"
        else unicodedata.category(char) not in ("Mn", "Me", "Cf")
        for char in label
    )


def stacked(label: str) -> str | None:
    """A label with one character per line, for a column that is too narrow: a single character, or characters as wide
    as Chinese ones. None for other labels, which are rotated."""
    upright = len(label) == 1 or (label and columns(label) == 2 * len(label))
    return "\n".join(label) if upright else None


def standing(label: str) -> Literal["baseline", "bottom"]:
    """The vertical alignment of an upright label above a column: a line stands on the base line, where "." and "'" have
    their places."""
    return "bottom" if "\n" in label else "baseline"


def _visible(char: str) -> str:
    if char in NAMED:
        return NAMED[char]
    if unicodedata.category(char) in _HIDDEN and char not in _JOINERS:
        code = ord(char)
        return (
            f"\\x{code:02x}"
            if code < 0x100
            else f"\\u{code:04x}"
            if code < 0x10000
            else f"\\U{code:08x}"
        )
    return char
