"""The parts of a text with the weight of each, of any sign."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False, repr=False)
class TextWeights:
    """How much each part of a text, or of several texts, counts for one output.

    labels: the parts, in order: words, or the tokens of words without blanks.
    weights: (part,), finite. A positive one speaks for the output, a negative one against it.
    name: the output, such as a class.
    texts: for each part the number of its text, in ascending order.
    glued: whether a part follows the one before without a blank.
    averaged: whether a part may have several tokens, the mean of whose amounts is its weight.
    framed: the numbers of the parts that a picture frames, such as those of an answer.

    Raises ValueError for counts that do not fit, or a weight that is not finite.
    """

    labels: tuple[str, ...]
    weights: np.ndarray
    name: str
    texts: tuple[int, ...]
    glued: tuple[bool, ...]
    averaged: bool = False
    framed: frozenset[int] = frozenset()

    def __repr__(self) -> str:
        return f"<TextWeights for {self.name!r}: {len(self.labels)} parts>"

    def __post_init__(self) -> None:
        weights = np.array(self.weights, dtype=np.float64)
        count = len(self.labels)
        if not weights.shape == (count,) == (len(self.texts),) == (len(self.glued),):
            raise ValueError(
                f"weights of shape {weights.shape}, {len(self.texts)} texts and {count} labels do not fit"
            )
        if not np.isfinite(weights).all():
            raise ValueError(f"weights are {weights}; expected finite numbers")
        weights.setflags(write=False)
        object.__setattr__(self, "weights", weights)

    @property
    def signed(self) -> bool:
        """Whether a part speaks against the output."""
        return bool((self.weights < 0).any())


def one_below_the_other(found: Sequence[TextWeights]) -> TextWeights:
    """At least one, as further texts of the first."""
    firsts = np.cumsum([0, *(len(each.labels) for each in found)])
    texts = np.cumsum([0, *(max(each.texts, default=0) + 1 for each in found)])
    return TextWeights(
        tuple(label for each in found for label in each.labels),
        np.concatenate([each.weights for each in found]),
        found[0].name,
        tuple(
            int(before) + text
            for each, before in zip(found, texts, strict=False)
            for text in each.texts
        ),
        tuple(glued for each in found for glued in each.glued),
        any(each.averaged for each in found),
        frozenset(
            int(first) + part
            for each, first in zip(found, firsts, strict=False)
            for part in each.framed
        ),
    )
