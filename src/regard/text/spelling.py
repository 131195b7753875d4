"""Words as rows of characters: their UTF-8 bytes between markers, the input of ELMo (Peters 2018).

Bytes have ids 1 to 256, the markers follow, and 0 is padding. No word contains a marker.
"""

LONGEST = 50
"""Characters of a word, markers included, in the published models."""
TEXT_BEGINS, TEXT_ENDS, WORD_BEGINS, WORD_ENDS, FILLER = 257, 258, 259, 260, 261
ALPHABET = 262
"""Number of ids."""


def spell(word: str, size: int = LONGEST) -> list[int]:
    """Spell a word as `size` ids: begin marker, the bytes that fit, end marker, filler."""
    return _filled(
        [byte + 1 for byte in word.encode("utf-8", "ignore")[: size - 2]], size
    )


def spell_mark(mark: int, size: int = LONGEST) -> list[int]:
    """The word at the beginning or end of a text: the marker TEXT_BEGINS or TEXT_ENDS between the word markers."""
    return _filled([mark], size)


def _filled(inside: list[int], size: int) -> list[int]:
    ids = [WORD_BEGINS, *inside, WORD_ENDS]
    return ids + [FILLER] * (size - len(ids))
