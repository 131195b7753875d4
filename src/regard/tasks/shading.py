"""The amounts of tokens as a shaded text."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from regard.data.token_words import Parts, parts_of
from regard.maps.text import TextWeights
from regard.text import Tokenizer

Amounts = Float[np.ndarray, " _token"]


def shaded_text(tokenizer: Tokenizer, texts: Sequence[str], amounts: Sequence[Amounts], name: str) -> TextWeights:
    """The amounts of the tokens of each text, of any sign, summed over words and divided by the sum of all magnitudes.
    A text of which fewer tokens have an amount was cut there. `name` is the output."""
    pairs = zip(texts, amounts, strict=True)
    return shaded_parts([parts_of(text, tokenizer.offsets(text)[: len(own)]) for text, own in pairs], amounts, name)


def shaded_parts(texts: Sequence[Parts], amounts: Sequence[Amounts], name: str) -> TextWeights:
    """As `shaded_text`, of the parts of each text."""
    labels: list[str] = []
    numbers: list[int] = []
    glued: list[bool] = []
    found: list[np.ndarray] = []
    for number, (parts, own) in enumerate(zip(texts, amounts, strict=True)):
        labels += parts.labels
        glued += parts.glued
        numbers += [number] * len(parts.labels)
        found.append(np.bincount(parts.indices, own, len(parts.labels)) if parts.labels else np.zeros(0))
    whole = np.concatenate([*found, np.zeros(0)])
    total = np.abs(whole).sum()
    shares, summed = whole / total if total else whole, any(len(each.indices) > len(each.labels) for each in texts)
    return TextWeights(tuple(labels), shares, name, tuple(numbers), tuple(glued), summed)
