"""Labels as they are drawn: their visible forms, their fonts, and their direction."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from regard.errors import InputError
from regard.text.kinds import NAMED

SIGNS = {"</s>": "∎", "<s>": "▷"}
"""The signs of special tokens: the end of a text, and its start."""
SIGN_MEANINGS = {
    "∎": "end of text",
    "▷": "start of text",
    "·": "space",
    "␣": "space",
    NAMED["\n"]: "line break",
    NAMED["\t"]: "tab",
}
"""The meaning of each sign in a label."""
_JOINERS = "\u200c\u200d"
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def show_invisible(label: str) -> str:
    """Return a label with visible forms of its invisible characters.

    Outer spaces become ␣; controls, bidi marks and surrogates become escapes; the start
    and the end of a text become their signs. Zero-width joiners stay, because shaping
    needs them.
    """
    if label in SIGNS:
        return SIGNS[label]
    result = ""
    for char in re.sub("^ +| +$", lambda match: "␣" * len(match[0]), label):
        if char in NAMED:
            char = NAMED[char]
        elif unicodedata.category(char) in _HIDDEN and char not in _JOINERS:
            char = char.encode("unicode_escape").decode("ascii")
        result += char
    return result


def flat_title(title: str) -> str:
    """Join a title and its details to one line, for metadata."""
    return show_invisible(", ".join(title.split("\n")))


def shorten(label: str, longest: int = 40) -> str:
    """Return `show_invisible(label)`, with '…' beyond `longest` characters.

    Variation selectors are removed: they choose a glyph and have none, so fonts may
    lack them.
    """
    text = re.sub("[\ufe00-\ufe0f]", "", show_invisible(label))
    return text if len(text) <= longest else text[: longest - 1] + "…"


def shorten_middle(label: str, longest: int) -> str:
    """Return `show_invisible(label)` with '…' in the middle if it is too long.

    Names that differ only at the end still differ.
    """
    text, half = show_invisible(label), longest // 2
    if len(text) <= longest:
        return text
    return f"{text[:half]}…{text[half + 1 - longest :]}"


def explain_signs(*sides: Iterable[str]) -> str:
    """Explain the signs at the end of labels in one line; empty without any."""
    last = {show_invisible(label)[-1:] for side in sides for label in side}
    signs = [sign for sign in SIGN_MEANINGS if sign in last]
    return ", ".join(f"{sign} {SIGN_MEANINGS[sign]}" for sign in signs)


def stack_letters(label: str) -> str | None:
    """Put one character per line, for a column that is too narrow.

    This suits a single character, or characters as wide as Chinese ones. The result is
    None for other labels, which are rotated.
    """
    widths = [unicodedata.east_asian_width(char) for char in label]
    if len(label) == 1 or (label and all(width in "WF" for width in widths)):
        return "\n".join(label)
    return None


PREFERRED_FONTS = (
    "DejaVu Sans",
    "Noto Sans",
    "Liberation Sans",
    "Arial",
    "Segoe UI",
    "Helvetica",
)
CHINESE = ("Noto Sans CJK SC", "Source Han Sans SC", "PingFang SC", "Microsoft YaHei")
JAPANESE = ("Noto Sans CJK JP", "Source Han Sans JP", "Hiragino Sans", "Yu Gothic")
KOREAN = ("Noto Sans CJK KR", "Source Han Sans KR", "Apple SD Gothic Neo")
# Han characters differ by language; kana or hangul among the labels identify it.
REGIONAL = {"HIRAGANA": JAPANESE, "KATAKANA": JAPANESE, "HANGUL": KOREAN}
SYMBOLS = ("Noto Sans Symbols", "Noto Sans Symbols2", "Noto Emoji", "Symbola")
# These fonts draw characters as boxes, or number their glyphs differently.
UNFIT = (
    "Last Resort",
    "Adobe Blank",
    "Noto Color Emoji",
    "Apple Color Emoji",
    "cm",
    "STIXNon",
    "STIXSize",
)


def choose_fonts(texts: Iterable[str]) -> list[str]:
    """Choose the font families for texts, in order of preference.

    Raises:
        InputError: No installed font covers some scripts.
    """
    needed = set("".join(texts))
    coverage = _cover(needed)
    if missing := needed.difference(*coverage.values()):
        _find_new_fonts()
        coverage = _cover(needed)
        missing = needed.difference(*coverage.values())
    if missing:
        first = {script(char): char for char in sorted(missing, reverse=True)}
        names = []
        for char in first.values():
            names.append(f"{unicodedata.name(char, 'UNNAMED')} (U+{ord(char):04X})")
        raise InputError(
            f"no installed font has {', '.join(names)}; install a font of this script (Debian: fonts-noto-core, "
            "fonts-noto-cjk, fonts-symbola), or write .html, which uses the browser's fonts"
        )
    return list(coverage)


def script(char: str) -> str:
    """Return the first word of the character's Unicode name, such as ARABIC or CJK.

    For letters it is their script.
    """
    return unicodedata.name(char, "UNNAMED").split()[0].split("-")[0]


def _cover(needed: set[str]) -> dict[str, set[str]]:
    """Return the characters that each useful family has.

    Only as many fonts as needed are opened.
    """
    from matplotlib.font_manager import FontPath, fontManager, get_font

    def distance(face: Any) -> float:
        return fontManager.score_weight("normal", face.weight)

    faces = {}
    for face in sorted(fontManager.ttflist, key=distance, reverse=True):
        if face.style == "normal" and not face.name.startswith(UNFIT):
            faces[face.name] = face
    preferred = list(PREFERRED_FONTS)
    for name in sorted(set(map(script, needed))):
        preferred += REGIONAL.get(name, ())
        preferred += [f"Noto Sans {name.title()}", f"Noto Serif {name.title()}"]
    preferred += [*CHINESE, *SYMBOLS, *sorted(faces)]
    coverage: dict[str, set[str]] = {}
    missing = set(needed)
    for family in dict.fromkeys(name for name in preferred if name in faces):
        if not missing:
            break
        path = FontPath(faces[family].fname, faces[family].index)
        characters = set(map(chr, get_font(path).get_charmap())) & needed
        if characters & missing:
            coverage[family] = characters
            missing -= characters
    return coverage


def _find_new_fonts() -> None:
    """Add fonts installed since matplotlib's first run to its font cache."""
    from matplotlib.font_manager import findSystemFonts, fontManager

    paths = {str(entry.fname) for entry in fontManager.ttflist}
    for path in sorted(set(findSystemFonts()) - paths):
        try:
            fontManager.addfont(path)
        except (OSError, RuntimeError):
            continue  # a broken or bitmap font draws nothing and is not this library's to report


RIGHT_TO_LEFT, LEFT_TO_RIGHT = ("R", "AL"), ("L", "EN", "AN")
"""Bidirectional classes of right-to-left letters, and of left-to-right letters and
digits."""


def is_right_to_left(label: str) -> bool:
    """Check whether the first letter with a direction is a right-to-left letter."""
    letters = [item for item in _directions(label) if item in (*RIGHT_TO_LEFT, "L")]
    return letters[:1] not in ([], ["L"])


def visual_order(labels: Sequence[str]) -> list[int]:
    """Return the order of labels from the right in a right-to-left line.

    Adjacent labels that begin with left-to-right letters or digits keep their order (a
    short form of Unicode Annex 9).
    """
    ordered: list[int] = []
    run: list[int] = []
    for index, label in enumerate(labels):
        if next(_directions(label), "") in LEFT_TO_RIGHT:
            run.insert(0, index)
        else:
            ordered += [*run, index]
            run = []
    return ordered + run


def _directions(label: str) -> Iterator[str]:
    return (unicodedata.bidirectional(letter) for letter in label)
