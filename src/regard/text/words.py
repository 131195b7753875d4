"""The word that each piece of a text belongs to."""

from collections.abc import Iterable


def word_indices(text: str, spans: Iterable[tuple[int, int]]) -> list[int]:
    """The word index of each character span, where blanks separate words. The first non-blank character of a span
    decides. A span of blanks belongs to the next word, at the end of the text to the last one."""
    at: list[int] = []
    word = -1
    for place, character in enumerate(text):
        if not character.isspace() and (place == 0 or text[place - 1].isspace()):
            word += 1
        at.append(word + 1 if character.isspace() else word)
    found = []
    for start, end in spans:
        solid = (place for place in range(start, end) if not text[place].isspace())
        found.append(min(at[next(solid, end - 1)], word))
    return found
