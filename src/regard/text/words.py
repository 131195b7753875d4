"""The word that each piece of a text belongs to."""

import re
from collections.abc import Iterable

WITHOUT_BLANKS = re.compile(
    r"[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
)
"""Thai, Lao, Tibetan, Burmese, Khmer, Japanese and Chinese, whose words have no blanks between."""


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


def is_inside_word(text: str, place: int) -> bool:
    """Whether the characters before and at a place are letters or digits of one word; in scripts without blanks no
    place is."""
    around = text[max(place - 1, 0) : place + 1]
    return (
        0 < place < len(text) and around.isalnum() and not WITHOUT_BLANKS.search(around)
    )
