"""The amounts of tokens as a shaded text."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from regard.data.token_words import Parts, parts_of
from regard.maps.text import TextWeights
from regard.text import Tokenizer

ELLIPSIS = "…"
Amounts = Float[np.ndarray, " _token"]


def shaded_text(
    tokenizer: Tokenizer, texts: Sequence[str], amounts: Sequence[Amounts], name: str
) -> TextWeights:
    """The amounts of the tokens of each text, of any sign, divided by the sum of all magnitudes: of a word the mean of
    its tokens, since a sum would grow with the word's length. A text of which fewer tokens have an amount was cut
    there, which an ellipsis shows. `name` is the output."""
    parts = []
    for text, own in zip(texts, amounts, strict=True):
        offsets = tokenizer.offsets(text)
        found = parts_of(text, offsets[: len(own)])
        parts.append(followed(found) if len(own) < len(offsets) else found)
    return shaded_parts(parts, amounts, name)


def followed(parts: Parts) -> Parts:
    """The parts of a text with an ellipsis behind them, for more text."""
    return Parts((*parts.labels, ELLIPSIS), parts.indices, (*parts.glued, False))


def preceded(parts: Parts) -> Parts:
    """The parts of a text with an ellipsis before them, for more text."""
    return Parts(
        (ELLIPSIS, *parts.labels),
        tuple(index + 1 for index in parts.indices),
        (False, *parts.glued),
    )


def shaded_parts(
    texts: Sequence[Parts], amounts: Sequence[Amounts], name: str
) -> TextWeights:
    """As `shaded_text`, of the parts of each text."""
    labels: list[str] = []
    numbers: list[int] = []
    glued: list[bool] = []
    found: list[np.ndarray] = []
    for number, (parts, own) in enumerate(zip(texts, amounts, strict=True)):
        labels += parts.labels
        glued += parts.glued
        numbers += [number] * len(parts.labels)
        places, count = np.array(parts.indices, np.int64), len(parts.labels)
        found.append(
            np.bincount(places, own, count)
            / np.maximum(np.bincount(places, minlength=count), 1)
        )
    whole = np.concatenate([*found, np.zeros(0)])
    total = sum(float(np.abs(own).sum()) for own in amounts)
    averaged = any(len(each.indices) > len(set(each.indices)) for each in texts)
    return TextWeights(
        tuple(labels),
        whole / total if total else whole,
        name,
        tuple(numbers),
        tuple(glued),
        averaged,
    )
