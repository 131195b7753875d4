"""The amounts of tokens as a shaded text."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from regard.data.token_words import parts_of
from regard.maps.text import TextWeights
from regard.text import Tokenizer


def shaded_text(
    tokenizer: Tokenizer, texts: Sequence[str], amounts: Sequence[Float[np.ndarray, " _token"]], name: str
) -> TextWeights:
    """The amounts of the tokens of each text, of any sign, summed over words and divided by the sum of all magnitudes.
    A text of which fewer tokens have an amount was cut there. `name` is the output."""
    labels: list[str] = []
    numbers: list[int] = []
    glued: list[bool] = []
    found: list[np.ndarray] = []
    for number, (text, own) in enumerate(zip(texts, amounts, strict=True)):
        parts = parts_of(text, tokenizer.offsets(text)[: len(own)])
        labels += parts.labels
        glued += parts.glued
        numbers += [number] * len(parts.labels)
        found.append(np.bincount(parts.indices, own, len(parts.labels)) if parts.labels else np.zeros(0))
    whole = np.concatenate([*found, np.zeros(0)])
    total = np.abs(whole).sum()
    return TextWeights(tuple(labels), whole / total if total else whole, name, tuple(numbers), tuple(glued))
