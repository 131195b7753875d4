"""A font for every label, so that no character appears as an empty box. Needs matplotlib."""

import unicodedata
from collections.abc import Iterable, Iterator

from regard.errors import InputError

PREFERRED = (
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


def families(labels: Iterable[str]) -> list[list[str]]:
    """The font families for each label, in order of preference; a single family if one has all its characters.

    Raises InputError with the scripts that no installed font covers, and the fonts to install."""
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
    """The first word of the character's Unicode name (ARABIC, CJK, DEVANAGARI): for letters, their script."""
    return unicodedata.name(char, "UNNAMED").split()[0].split("-")[0]


def _cover(needed: set[str]) -> dict[str, set[str]]:
    """The characters that each family has, in order of preference. Opens only as many fonts as needed."""
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
    preferred = [*PREFERRED, *HAN[han], *noto, *SYMBOLS]
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

    known = {str(entry.fname) for entry in fontManager.ttflist}
    for path in sorted(set(findSystemFonts()) - known):
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
