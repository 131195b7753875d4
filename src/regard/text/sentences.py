"""Split a text into sentences: a few rules for any language that ends sentences with marks."""

import re
from collections.abc import Iterator

_END = re.compile(r"(?:[.!?…]+[\"'”’»)\]]*(?=\s)|[。！？｡]+[」』”’）]*|\n\s*\n)")
"""Possible ends of a sentence: marks with closing quotes before a blank, East Asian marks, and an empty line."""
_SHORT = {
    *(
        "mr",
        "mrs",
        "ms",
        "dr",
        "prof",
        "st",
        "sr",
        "jr",
        "gen",
        "sen",
        "rep",
        "gov",
        "capt",
        "lt",
        "col",
        "sgt",
    ),
    *(
        "vs",
        "no",
        "nos",
        "fig",
        "figs",
        "vol",
        "pp",
        "ca",
        "cf",
        "etc",
        "al",
        "approx",
        "dept",
        "e.g",
        "i.e",
    ),
    *(
        "jan",
        "feb",
        "mar",
        "apr",
        "jun",
        "jul",
        "aug",
        "sep",
        "sept",
        "oct",
        "nov",
        "dec",
        "u.s",
        "u.k",
        "ph.d",
    ),
}
"""Abbreviations that may stand inside a sentence, without their last full stop."""


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Half-open character spans of the sentences, in order and disjoint. They cover the text except blanks at their
    ends.

    A full stop does not end a sentence behind an abbreviation or a single capital letter. No mark ends one before a
    lower-case letter, unless the text has no capitals.
    """
    spans, start = [], 0
    for end in [*_ends(text), len(text)]:
        inner = text[start:end].strip()
        if inner:
            first = text.index(inner, start)
            spans.append((first, first + len(inner)))
        start = end
    return spans


def _ends(text: str) -> Iterator[int]:
    capitals = any(letter.isupper() for letter in text)
    for found in _END.finditer(text):
        mark = found.group()
        if mark[0] not in ".!?…" or _ends_one(
            text, found.start(), found.end(), mark, capitals
        ):
            yield found.end()


def _ends_one(text: str, start: int, end: int, mark: str, capitals: bool) -> bool:
    following = next(
        (letter for letter in text[end : end + 16] if not letter.isspace()), ""
    )
    if capitals and following.islower():
        return False
    if mark != ".":
        return True
    word = re.search(r"[\w.]*\Z", text[max(0, start - 16) : start])
    before = word.group() if word else ""
    return before.lower() not in _SHORT and not (
        len(before) == 1 and before.isalpha() and before.isupper()
    )
