"""What a context's words have in common with a question: the features of Chen 2017 (1704.00051), section 3.2.

Words are compared by their text, so that a word which the vocabulary lacks is found too. A stem of four letters stands
for the lemma, and case, digits and punctuation stand for the tags of the paper.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from regard.shapes import Float, Int
from regard.text.spelling import spell

STEM = 4


@lru_cache(maxsize=2**17)
def _described(word: str) -> tuple[str, str, bool, bool, bool]:
    """A word in small letters, its stem, and whether it begins with a capital, has a digit, has no letter or digit."""
    small = word.lower()
    return (
        small,
        small[:STEM],
        word[:1].isupper(),
        any(each.isdigit() for each in word),
        not any(each.isalnum() for each in word),
    )


def word_features(
    question: Sequence[str], context: Sequence[str]
) -> Float[Tensor, "position 6"]:
    """Six numbers in [0, 1] for each word of the context: 1 where the question has the word whatever its case, or its
    first four letters; 1 for a capital, a digit, punctuation; and its share of the context's words."""
    if not context:
        return torch.zeros(0, 6)
    small, stems, capital, digit, mark = zip(
        *(_described(word.strip()) for word in context), strict=True
    )
    present = [_described(word.strip()) for word in question]
    words, stemmed = {each[0] for each in present}, {each[1] for each in present}
    counts: dict[str, int] = {}
    for word in small:
        counts[word] = counts.get(word, 0) + 1
    columns = [
        [word in words for word in small],
        [stem in stemmed for stem in stems],
        capital,
        digit,
        mark,
        [counts[word] / len(small) for word in small],
    ]
    return torch.from_numpy(np.array(columns, dtype=np.float32).T.copy())


def spellings(words: Sequence[str], size: int) -> Int[Tensor, "position character"]:
    """The characters of each word, `size` ids a word (`regard.text.spelling`); none with a size of 0."""
    rows = [_spelled(word.strip(), size) for word in words] if size else []
    return torch.from_numpy(np.array(rows, dtype=np.int16).reshape(len(words), size))


@lru_cache(maxsize=2**17)
def _spelled(word: str, size: int) -> tuple[int, ...]:
    return tuple(spell(word, size))
