"""Attention weights of a document's sentences, and of the words within each sentence."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False, repr=False)
class DocumentWeights:
    """Weights of a document's sentences, and of the words of each sentence (Yang 2016, figures 5 and 6).

    sentences: labels of the words of each sentence; there may be none.
    weights: (sentence,), finite and non-negative.
    words: for each sentence (word,), finite and non-negative.

    Raises ValueError for counts that do not fit, or a weight that is negative or not finite.
    """

    sentences: tuple[tuple[str, ...], ...]
    weights: np.ndarray
    words: tuple[np.ndarray, ...]

    def __repr__(self) -> str:
        return f"<DocumentWeights: {len(self.sentences)} sentences>"

    def __post_init__(self) -> None:
        weights = _frozen("sentences", self.weights, len(self.sentences))
        if len(self.words) != len(self.sentences):
            raise ValueError(
                f"weights of the words of {len(self.words)} sentences; expected {len(self.sentences)}"
            )
        pairs = zip(self.words, self.sentences, strict=True)
        words = tuple(
            _frozen(f"the words of sentence {place}", each, len(labels))
            for place, (each, labels) in enumerate(pairs)
        )
        object.__setattr__(self, "sentences", tuple(map(tuple, self.sentences)))
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "words", words)


def _frozen(what: str, weights: np.ndarray, count: int) -> np.ndarray:
    """A read-only float64 copy."""
    found = np.array(weights, dtype=np.float64)
    if found.shape != (count,):
        raise ValueError(
            f"weights of {what} have shape {found.shape}; expected ({count},)"
        )
    if not np.isfinite(found).all() or (found < 0).any():
        raise ValueError(
            f"weights of {what} are {found}; expected finite and not negative"
        )
    found.setflags(write=False)
    return found
