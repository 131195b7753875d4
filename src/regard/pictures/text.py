"""Labels as they are drawn: visible forms, fonts, measured words and titles."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from regard.errors import InputError
from regard.pictures.style import INK, MUTED, PAPER, choose_sizes, hex_color
from regard.text.kinds import NAMED

SIGNS = {"</s>": "∎", "<s>": "▷"}
"""The signs of special tokens: the end of a text, and its start."""
SIGN_MEANINGS = {
    SIGNS["</s>"]: "end of text",
    SIGNS["<s>"]: "start of text",
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
    inner = label.strip(" ")
    before = len(label) - len(label.lstrip(" "))
    after = len(label) - len(inner) - before
    return "␣" * before + "".join(map(_visible, inner)) + "␣" * after


def flat_title(title: str) -> str:
    """Join a title and its details to one line, for metadata."""
    return show_invisible(", ".join(title.split("\n")))


def shorten(label: str, longest: int = 40) -> str:
    """`show_invisible(label)`, shortened with '…' beyond `longest` characters.

    Variation selectors are removed: they choose a glyph and have none, so fonts may
    lack them.
    """
    text = "".join(
        char for char in show_invisible(label) if not "\ufe00" <= char <= "\ufe0f"
    )
    return text if len(text) <= longest else text[: longest - 1] + "…"


def shorten_middle(label: str, longest: int) -> str:
    """`shorten(label)`, but with the '…' in the middle: names that differ only at the end still differ."""
    text = shorten(label, longest=max(len(show_invisible(label)), 1))
    before = longest // 2
    return (
        text
        if len(text) <= longest
        else f"{text[:before]}…{text[len(text) - (longest - 1 - before) :]}"
    )


def explain_signs(*sides: Iterable[str]) -> str:
    """Explain the signs at the end of labels in one line; empty without any."""
    last = {show_invisible(label)[-1:] for side in sides for label in side}
    used = [(sign, meaning) for sign, meaning in SIGN_MEANINGS.items() if sign in last]
    return ", ".join(f"{sign} {meaning}" for sign, meaning in used)


def count_columns(label: str) -> int:
    """Count character cells: 2 for East Asian wide ones, 0 for combining marks."""
    return sum(
        2
        if unicodedata.east_asian_width(char) in "WF"
        else unicodedata.category(char) not in ("Mn", "Me", "Cf")
        for char in label
    )


def stack_letters(label: str) -> str | None:
    """Put one character per line, for a column that is too narrow.

    This suits a single character, or characters as wide as Chinese ones. The result is
    None for other labels, which are rotated.
    """
    upright = len(label) == 1 or (label and count_columns(label) == 2 * len(label))
    return "\n".join(label) if upright else None


def vertical_alignment(label: str) -> Literal["baseline", "bottom"]:
    """Return the vertical alignment of an upright label above a column.

    A line stands on the base line, where "." and "'" have their places.
    """
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


PREFERRED_FONTS = (
    "DejaVu Sans",
    "Noto Sans",
    "Liberation Sans",
    "Arial",
    "Segoe UI",
    "Helvetica",
)
# Han characters differ by language; kana or hangul among the labels identify it.
HAN = {
    "SC": (
        "Noto Sans CJK SC",
        "Source Han Sans SC",
        "PingFang SC",
        "Microsoft YaHei",
        "WenQuanYi Zen Hei",
    ),
    "JP": ("Noto Sans CJK JP", "Source Han Sans JP", "Hiragino Sans", "Yu Gothic"),
    "KR": (
        "Noto Sans CJK KR",
        "Source Han Sans KR",
        "Apple SD Gothic Neo",
        "Malgun Gothic",
    ),
}
CJK = {
    "CJK",
    "HIRAGANA",
    "KATAKANA",
    "HANGUL",
    "BOPOMOFO",
    "IDEOGRAPHIC",
    "FULLWIDTH",
    "HALFWIDTH",
    "KANGXI",
}
SYMBOLS = (
    "Noto Sans Symbols",
    "Noto Sans Symbols2",
    "Noto Emoji",
    "Symbola",
    "Segoe UI Symbol",
)
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


def choose_fonts(labels: Iterable[str]) -> list[list[str]]:
    """Choose the font families for each label, in order of preference.

    A single family is chosen if it has all characters.

    Raises:
        InputError: No installed font covers some scripts; it names fonts to install.
    """
    labels = list(labels)
    needed = {char for label in labels for char in label}
    coverage = _cover(needed)
    lost = needed - set().union(*coverage.values())
    if lost:
        _find_new_fonts()
        coverage = _cover(needed)
        lost = needed - set().union(*coverage.values())
    if lost:
        raise InputError(_advice(lost))
    return [_choose(set(label), coverage) for label in labels]


def script(char: str) -> str:
    """Return the first word of the character's Unicode name, such as ARABIC or CJK.

    For letters it is their script.
    """
    return unicodedata.name(char, "UNNAMED").split()[0].split("-")[0]


def _cover(needed: set[str]) -> dict[str, set[str]]:
    """Return the characters that each family has, in order of preference.

    Only as many fonts as needed are opened.
    """
    coverage: dict[str, set[str]] = {}
    missing = set(needed)
    for family in _candidates(needed):
        if not missing:
            break
        has = _characters(family, needed)
        if has & missing:
            coverage[family] = has
            missing -= has
    return coverage


def _candidates(needed: set[str]) -> Iterator[str]:
    from matplotlib.font_manager import fontManager

    installed = sorted(
        {
            entry.name
            for entry in fontManager.ttflist
            if not entry.name.startswith(UNFIT)
        }
    )
    scripts = {script(char) for char in needed}
    han = (
        "JP"
        if scripts & {"HIRAGANA", "KATAKANA"}
        else "KR"
        if "HANGUL" in scripts
        else "SC"
    )
    noto = [
        f"Noto {kind} {name.title()}"
        for name in sorted(scripts)
        for kind in ("Sans", "Naskh", "Serif")
    ]
    preferred = [*PREFERRED_FONTS, *HAN[han], *noto, *SYMBOLS]
    present = set(installed)
    yield from dict.fromkeys(
        [name for name in preferred if name in present] + installed
    )


def _characters(family: str, needed: set[str]) -> set[str]:
    from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font

    # matplotlib warns about families without a requested property, so request one that the family has
    faces = [entry for entry in fontManager.ttflist if entry.name == family]
    plain = min(
        faces,
        key=lambda face: (
            face.style != "normal",
            fontManager.score_weight("normal", face.weight),
        ),
    )
    properties = FontProperties(family=[family], weight=plain.weight)
    properties.set_style(plain.style)  # pyright: ignore[reportArgumentType] a string, one of three
    font = get_font(findfont(properties, fallback_to_default=False))
    return {char for char in needed if font.get_char_index(ord(char))}


def _choose(characters: set[str], coverage: dict[str, set[str]]) -> list[str]:
    for family, has in coverage.items():
        if characters <= has:
            return [family]
    return list(coverage)


def _find_new_fonts() -> None:
    """Update matplotlib's font cache, which dates from its first run, with fonts installed since."""
    from matplotlib.font_manager import findSystemFonts, fontManager

    paths = {str(entry.fname) for entry in fontManager.ttflist}
    for path in sorted(set(findSystemFonts()) - paths):
        try:
            fontManager.addfont(path)
        except (OSError, RuntimeError):
            continue  # a broken or bitmap font draws nothing and is not this library's to report


def _advice(lost: set[str]) -> str:
    by_script: dict[str, str] = {}
    for char in sorted(lost):
        symbol = unicodedata.category(char).startswith("S")
        name = unicodedata.name(char, "UNNAMED") if symbol else script(char)
        by_script.setdefault("CJK" if script(char) in CJK else name, char)
    missing = ", ".join(
        f"{name} (U+{ord(char):04X})" for name, char in by_script.items()
    )
    fonts = ", ".join(
        dict.fromkeys(_font_for(name, char) for name, char in by_script.items())
    )
    return f"no installed font has {missing}; install {fonts}, or write .html, which uses the browser's fonts"


def _font_for(name: str, char: str) -> str:
    if name == "CJK":
        return "Noto Sans CJK (Debian: fonts-noto-cjk)"
    if unicodedata.category(char).startswith("S"):
        return "Symbola (Debian: fonts-symbola)"
    return f"Noto Sans {name.title()} (Debian: fonts-noto-core)"


if TYPE_CHECKING:
    from matplotlib.figure import Figure

RIGHT_TO_LEFT, LEFT_TO_RIGHT = ("R", "AL"), ("L", "EN", "AN")
"""Bidirectional classes of right-to-left letters, and of left-to-right letters and
digits."""
MAX_LETTERS = 60
"""The maximum of letters drawn of a word."""


@dataclass(frozen=True)
class Word:
    """A label with its fonts and its width in inches."""

    label: str
    fonts: list[str]
    width: float


def new_figure() -> Figure:
    """Create an empty figure; its size is set later."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(facecolor=PAPER, dpi=100)
    FigureCanvasAgg(figure)
    return figure


def measure(
    figure: Figure, labels: Sequence[str], size: float, longest: int = MAX_LETTERS
) -> list[Word]:
    """Return labels with their fonts and widths at a type size in points.

    Raises:
        InputError: No installed font has a character.
    """
    from matplotlib.font_manager import FontProperties

    renderer = figure.canvas.get_renderer()  # pyright: ignore[reportAttributeAccessIssue] that of the Agg canvas
    texts = [shorten(label, longest=longest) for label in labels]
    words = []
    for label, fonts in zip(texts, choose_fonts(texts), strict=True):
        width, _, _ = renderer.get_text_width_height_descent(
            label, FontProperties(family=fonts, size=size), ismath=False
        )
        words.append(Word(label, fonts, width / figure.dpi))
    return words


def draw_box(
    figure: Figure, place: tuple[float, float, float, float], shade: float, **style: Any
) -> None:
    """Draw a rectangle (left, bottom, width, height) in the color of a weight."""
    from matplotlib.patches import Rectangle

    x, bottom, width, height = place
    inches = figure.dpi_scale_trans
    figure.add_artist(
        Rectangle(
            (x, bottom),
            width,
            height,
            facecolor=hex_color(shade),
            transform=inches,
            **style,
        )
    )


def draw_text(
    figure: Figure, label: str, place: tuple[float, float], **style: Any
) -> None:
    """Plain text, never mathematics, centred vertically at `place`."""
    inches = figure.dpi_scale_trans
    figure.text(
        *place, label, transform=inches, va="center_baseline", parse_math=False, **style
    )


def is_right_to_left(label: str) -> bool:
    """Whether the first letter with a direction is a right-to-left letter."""
    return next(
        (
            direction in RIGHT_TO_LEFT
            for direction in _directions(label)
            if direction in RIGHT_TO_LEFT or direction == "L"
        ),
        False,
    )


def visual_order(labels: Sequence[str]) -> list[int]:
    """Return the order of labels from the right in a right-to-left line.

    Adjacent labels that begin with left-to-right letters or digits keep their order (a
    short form of Unicode Annex 9).
    """
    ordered: list[int] = []
    run: list[int] = []
    for place, label in enumerate(labels):
        if next(_directions(label), "") in LEFT_TO_RIGHT:
            run.insert(0, place)
        else:
            ordered += [*run, place]
            run = []
    return ordered + run


def _directions(label: str) -> Iterator[str]:
    return (unicodedata.bidirectional(letter) for letter in label)


if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINE, DETAIL, GAP = 0.21, 0.16, 0.06
"""The heights of a line of the title and of a detail, and the space below them, in
inches."""
MIN_TITLE_WIDTH = 4.6
"""The least width of a figure with a title, in inches."""
TITLE_LINES = 4
"""The most lines of the text itself; a longer one ends in '…'."""
TITLE_LETTERS = 2_000
"""The most letters of a title that are measured."""


@dataclass(frozen=True)
class Title:
    """The lines of a title and of its details."""

    lines: tuple[Word, ...]
    details: tuple[Word, ...]

    @property
    def height(self) -> float:
        """Its height with the space below, in inches."""
        tall = LINE * len(self.lines) + DETAIL * len(self.details)
        return tall + GAP if tall else 0.0

    @property
    def width(self) -> float:
        """The width of its longest line, in inches."""
        return max((line.width for line in (*self.lines, *self.details)), default=0.0)

    def draw(self, figure: Figure, x: float, top: float) -> float:
        """Draw it below `top`, in inches, and return where the figure's content begins."""
        size = choose_sizes(1)
        for word in self.lines:
            draw_text(
                figure,
                word.label,
                (x, top - LINE / 2),
                size=size.title,
                color=INK,
                family=word.fonts,
            )
            top -= LINE
        for word in self.details:
            draw_text(
                figure,
                word.label,
                (x, top - DETAIL / 2),
                size=size.small,
                color=MUTED,
                family=word.fonts,
            )
            top -= DETAIL
        return top - (GAP if self.height else 0.0)


def layout_title(figure: Figure, title: str, room: float, *notes: str) -> Title:
    """Wrap a title to a width in inches.

    Its first line is the text; further lines and the `notes` are details.

    Raises:
        InputError: No installed font has a character.
    """
    head, *details = title.split("\n")
    size = choose_sizes(1)
    lines = (
        wrap(figure, shorten(head, longest=TITLE_LETTERS), size.title, room)
        if head
        else []
    )
    if len(lines) > TITLE_LINES:
        last = lines[TITLE_LINES - 1].label
        lines = [
            *lines[: TITLE_LINES - 1],
            *measure(figure, [last[:-2].rstrip() + "…"], size.title, TITLE_LETTERS),
        ]
    below = [
        line
        for detail in (*details, *notes)
        if detail
        for line in wrap(figure, detail, size.small, room)
    ]
    return Title(tuple(lines), tuple(below))


def wrap(figure: Figure, label: str, size: float, room: float) -> list[Word]:
    """Break a text into lines of at most `room` inches.

    Lines end at spaces, or within a word that is longer than a line.
    """

    def width(part: str) -> float:
        return measure(figure, [part.rstrip()], size, TITLE_LETTERS)[0].width

    lines = [""]
    for piece in re.findall(r"\S+\s*|\s+", label):
        if lines[-1] and width(lines[-1] + piece) > room:
            lines.append("")
        if width(piece) <= room:
            lines[-1] += piece
            continue
        for letter in piece:
            if lines[-1] and width(lines[-1] + letter) > room:
                lines.append("")
            lines[-1] += letter
    return measure(figure, [line.rstrip() for line in lines], size, TITLE_LETTERS)
