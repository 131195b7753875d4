"""Words, their spelling and sentences, without a vocabulary."""

import re
from collections.abc import Iterable

WITHOUT_BLANKS = re.compile(
    r"[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
)
"""Thai, Lao, Tibetan, Burmese, Khmer, Japanese and Chinese, whose words have no blanks between."""


def word_indices(text: str, spans: Iterable[tuple[int, int]]) -> list[int]:
    """Return the word index of each character span, where blanks separate words.

    The first non-blank character of a span decides. A span of blanks belongs to the next
    word, at the end of the text to the last one.
    """
    at: list[int] = []
    word = -1
    after_blank = True
    for character in text:
        is_blank = character.isspace()
        word += after_blank and not is_blank
        at.append(word + is_blank)
        after_blank = is_blank
    result = []
    for start, end in spans:
        solid = (place for place in range(start, end) if not text[place].isspace())
        result.append(min(at[next(solid, end - 1)], word))
    return result


def is_inside_word(text: str, place: int) -> bool:
    """Return whether the characters before and at a place are of one word.

    They are letters or digits; in scripts without blanks no place is inside a word.
    """
    around = text[max(place - 1, 0) : place + 1]
    return (
        0 < place < len(text) and around.isalnum() and not WITHOUT_BLANKS.search(around)
    )


LONGEST = 50
"""Characters of a word, markers included, in the published models."""
TEXT_BEGINS, TEXT_ENDS, WORD_BEGINS, WORD_ENDS, FILLER = 257, 258, 259, 260, 261
ALPHABET = 262
"""Number of ids."""


def spell(word: str, size: int = LONGEST) -> list[int]:
    """Spell a word as `size` ids: begin marker, the bytes that fit, end marker, filler."""
    return _fill(
        [byte + 1 for byte in word.encode("utf-8", "ignore")[: size - 2]], size
    )


def spell_mark(mark: int, size: int = LONGEST) -> list[int]:
    """Spell the word at the beginning or end of a text: a mark between word markers."""
    return _fill([mark], size)


def _fill(inside: list[int], size: int) -> list[int]:
    ids = [WORD_BEGINS, *inside, WORD_ENDS]
    return ids + [FILLER] * (size - len(ids))


_END = re.compile(
    r"(?:[.!?…؟۔።፧]+[\"'”’»)\]]*(?=\s)|[。！？｡।॥။\u037e]+[」』”’）]*|\n\s*\n)"
)
"""Possible ends of a sentence: marks with closing quotes before a blank, marks that stand nowhere else, and an empty
line."""
_GREEK_END = re.compile(r"(?<=[\u0370-\u03ff\u1f00-\u1fff]);(?=\s|\Z)")
"""A semicolon behind a Greek letter, which asks."""
_SHORT = re.compile(
    r"mr|mrs|ms|dr|prof|st|sr|jr|gen|sen|rep|gov|capt|lt|col|sgt|vs|nos?|figs?|vol|pp|ca"
    r"|cf|etc|al|approx|dept|e\.g|i\.e|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|u\.s"
    r"|u\.k|ph\.d"
)
"""Abbreviations that may stand inside a sentence, without their last full stop."""


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Return the half-open character spans of sentences, in order and disjoint.

    They cover the text except blanks at their ends.

    A full stop does not end a sentence behind an abbreviation or a single capital letter. No mark ends one before a
    lower-case letter, unless the text has no capitals.
    """
    has_capitals = any(letter.isupper() for letter in text)
    marks = _END.finditer(text)
    ends = [mark.end() for mark in marks if _is_end(text, mark, has_capitals)]
    ends = sorted([*ends, *(mark.end() for mark in _GREEK_END.finditer(text))])
    spans = []
    start = 0
    for end in [*ends, len(text)]:
        inner = text[start:end].strip()
        if inner:
            first = text.index(inner, start)
            spans.append((first, first + len(inner)))
        start = end
    return spans


def _is_end(text: str, match: re.Match[str], has_capitals: bool) -> bool:
    """Return whether a mark ends a sentence."""
    mark = match.group()
    if mark[0] not in ".!?…":
        return True
    following = text[match.end() : match.end() + 16].lstrip()
    if has_capitals and following[:1].islower():
        return False
    if mark != ".":
        return True
    word = re.findall(r"[\w.]*\Z", text[max(0, match.start() - 16) : match.start()])[0]
    is_initial = len(word) == 1 and word.isalpha() and word.isupper()
    return not is_initial and _SHORT.fullmatch(word.lower()) is None
