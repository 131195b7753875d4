"""Words as rows of characters: the bytes of their UTF-8 between marks, as ELMo reads them (Peters 2018).

Bytes are ids 1 to 256, the marks follow, 0 is what stands past the end of a text. No mark can be written in a word.
"""

LONGEST = 50
"""Characters of a word, its marks counted, in the published models."""
TEXT_BEGINS, TEXT_ENDS, WORD_BEGINS, WORD_ENDS, FILLER = 257, 258, 259, 260, 261
ALPHABET = 262
"""How many ids there are."""


def spell(word: str, size: int = LONGEST) -> list[int]:
    """A word as `size` ids: its mark, its bytes, as many as there is room for, its other mark, and filler."""
    return _filled([byte + 1 for byte in word.encode("utf-8", "ignore")[: size - 2]], size)


def spell_mark(mark: int, size: int = LONGEST) -> list[int]:
    """The word that stands where a text begins or ends: the mark TEXT_BEGINS or TEXT_ENDS alone."""
    return _filled([mark], size)


def _filled(inside: list[int], size: int) -> list[int]:
    ids = [WORD_BEGINS, *inside, WORD_ENDS]
    return ids + [FILLER] * (size - len(ids))
