"""Labeled attention weights: of a sentence pair, a document and a text, and of words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

Matrix = Float[np.ndarray, "target source"]
LayerMaps = Float[np.ndarray, "layer head target source"]
Labels = tuple[str, ...]
Indices = tuple[int, ...]
MAX_COLUMNS = 30
"""The maximum of source positions of a shortened map, without the columns of gaps."""
OMITTED = "…"
"""The label of a column in place of omitted source positions."""


def freeze(
    name: str,
    weights: Any,
    shape: Sequence[int | str],
    dtype: Any = np.float64,
    *,
    signed: bool = False,
) -> np.ndarray:
    """Return a read-only copy of weights.

    Args:
        name: What to call them in an error.
        shape: The expected size of each axis, or the name of an axis of any size.
        dtype: The type of the copy.
        signed: Whether they may be negative.

    Raises:
        ValueError: They have another shape, or one is negative or not finite.
    """
    copy = np.array(weights, dtype=dtype)
    sizes = zip(shape, copy.shape, strict=False)
    fits = all(isinstance(size, str) or size == actual for size, actual in sizes)
    if not fits or copy.ndim != len(shape):
        expected = ", ".join(map(str, shape))
        raise ValueError(f"{name} have shape {copy.shape}; expected ({expected})")
    is_valid = np.isfinite(copy) & (signed | (copy >= 0))
    if not is_valid.all():
        place = tuple(np.argwhere(~is_valid)[0].tolist())
        expected = "finite" if signed else "finite and not negative"
        raise ValueError(
            f"{name} have {copy[place]} at index {place}; expected {expected}"
        )
    copy.setflags(write=False)
    return copy


class Weighted:
    """A base of weights that are shown without their numbers."""

    weights: np.ndarray

    def __repr__(self) -> str:
        return f"<{type(self).__name__} with weights of shape {self.weights.shape}>"


def set_fields(item: object, **values: Any) -> None:
    """Set fields of a frozen dataclass while it is made."""
    for name, value in values.items():
        object.__setattr__(item, name, value)


@dataclass(frozen=True, eq=False, repr=False)
class Alignment(Weighted):
    """Attention weights of one sentence pair (Bahdanau, Cho, Bengio 2015, figure 3).

    Attributes:
        weights: (T, S), finite and non-negative; row t holds the weights of target
            piece t. A row may be all zeros, and T or S may be 0. Stored as a read-only
            float64 copy.
        source: S labels.
        target: T labels.

    Raises:
        ValueError: A wrong shape or number of labels, or a weight that is negative or
            not finite.
    """

    weights: np.ndarray
    source: Labels
    target: Labels

    def __post_init__(self) -> None:
        source, target = tuple(self.source), tuple(self.target)
        weights = freeze("weights", self.weights, (len(target), len(source)))
        set_fields(
            self,
            weights=weights,
            source=source,
            target=target,
        )


@dataclass(frozen=True, eq=False, repr=False)
class DocumentWeights(Weighted):
    """Weights of a document's sentences and of their words (Yang 2016, figures 5, 6).

    Attributes:
        sentences: Labels of the words of each sentence; there may be none.
        weights: (sentence,), finite and non-negative.
        words: For each sentence (word,), finite and non-negative.

    Raises:
        ValueError: Counts that do not fit, or a weight that is negative or not finite.
    """

    sentences: tuple[Labels, ...]
    weights: np.ndarray
    words: tuple[np.ndarray, ...]

    def __post_init__(self) -> None:
        words = []
        for row, labels in zip(self.words, self.sentences, strict=True):
            words.append(freeze("weights of words", row, (len(labels),)))
        weights = freeze("weights of sentences", self.weights, (len(words),))
        set_fields(self, weights=weights, words=tuple(words))


@dataclass(frozen=True, eq=False, repr=False)
class TextWeights(Weighted):
    """How much each part of one or several texts counts for one output.

    Attributes:
        labels: The parts, in order: words, or tokens of words without spaces.
        weights: (part,), finite. A positive one speaks for the output, a negative one
            against it.
        name: The output, such as a class.
        texts: For each part the number of its text, in ascending order.
        glued: Whether a part follows the one before without a space.
        averaged: Whether a part may have several tokens, whose mean is its weight.
        framed: The numbers of the parts to frame, such as those of an answer.

    Raises:
        ValueError: Counts that do not fit, or a weight that is not finite.
    """

    labels: Labels
    weights: np.ndarray
    name: str
    texts: Indices
    glued: tuple[bool, ...]
    averaged: bool = False
    framed: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        weights = freeze(
            "weights",
            self.weights,
            (len(self.labels),),
            signed=True,
        )
        set_fields(self, weights=weights)

    @property
    def signed(self) -> bool:
        """Whether a part speaks against the output."""
        return bool((self.weights < 0).any())


def stack_texts(items: Sequence[TextWeights]) -> TextWeights:
    """Join at least one text to one, with the name of the first."""
    result = items[0]
    for item in items[1:]:
        count, following = len(result.labels), max(result.texts, default=-1) + 1
        result = TextWeights(
            result.labels + item.labels,
            np.concatenate([result.weights, item.weights]),
            result.name,
            result.texts + tuple(following + text for text in item.texts),
            result.glued + item.glued,
            result.averaged or item.averaged,
            result.framed | {count + part for part in item.framed},
        )
    return result


class Words(NamedTuple):
    """The words of pieces.

    Attributes:
        labels: The words that have a piece.
        indices: The word of each piece, counted from 0.
    """

    labels: Labels
    indices: Indices


@dataclass(frozen=True)
class Side:
    """The pieces along one side of a map, and their words."""

    pieces: tuple[str, ...]
    words: Words

    @classmethod
    def of(cls, pieces: Sequence[str], words: Words | None = None) -> "Side":
        """Return a side; by default each piece is a word."""
        if words is None:
            words = Words(tuple(pieces), tuple(range(len(pieces))))
        return cls(tuple(pieces), words)

    def prepend(self, label: str, count: int) -> "Side":
        """Put `count` pieces of this label in front, each a word; none below 1."""
        count = max(0, count)
        labels = (label,) * count
        indices = *range(count), *(count + index for index in self.words.indices)
        return Side(labels + self.pieces, Words(labels + self.words.labels, indices))


def join_words(
    weights: Float[np.ndarray, "... target source"],
    source_words: Sequence[int],
    target_words: Sequence[int],
) -> Float[np.ndarray, "... target_word source_word"]:
    """Sum over source pieces and average over target pieces (Clark 2019, section 4.1).

    Rows that sum to 1 still do.

    Args:
        weights: Weights between pieces.
        source_words: The word index of each source piece, 0 to words - 1, each used.
        target_words: The same for the target.

    Raises:
        ValueError: A wrong count, a negative index or a word without pieces.
    """
    source = _membership("source", source_words, weights.shape[-1])
    target = _membership("target", target_words, weights.shape[-2])
    mean = target / target.sum(axis=0)
    return mean.T @ weights @ source


def _membership(side: str, words: Sequence[int], pieces: int) -> np.ndarray:
    """Return (pieces, words), 1.0 where a piece belongs to a word."""
    indices = np.array(words, dtype=np.int64)
    count = len(set(words))
    if len(words) != pieces or set(words) != set(range(count)):
        raise ValueError(
            f"the {side} words are {words} for {pieces} pieces; expected one each, and "
            f"every index from 0 to {count - 1}"
        )
    return np.eye(count)[indices]


def is_long(alignment: Alignment) -> bool:
    """Check whether only the strongest source positions of a map should be drawn."""
    targets, sources = alignment.weights.shape
    return sources > max(64, 4 * targets)


class ShortenedAlignment(NamedTuple):
    """A map of fewer source positions.

    Attributes:
        alignment: Its weights; the column of a gap has none.
        gaps: The numbers of the columns that stand for omitted positions.
        note: A line about the selection.
    """

    alignment: Alignment
    gaps: Indices
    note: str


def select_strongest(
    alignment: Alignment, count: int = MAX_COLUMNS
) -> ShortenedAlignment:
    """Select the source positions with the largest weights, and their neighbors."""
    weights = alignment.weights
    sources = weights.shape[1]
    strongest = np.argsort(-weights.max(0, initial=0.0), kind="stable")[: count // 3]
    selected = np.unique([strongest - 1, strongest, strongest + 1])
    selected = selected[(selected >= 0) & (selected < sources)].tolist()
    labels, gaps, last = [], [], -1
    for index in (*selected, sources):
        if index > last + 1:
            gaps.append(len(labels))
            labels.append(OMITTED)
        labels += alignment.source[index : index + 1]
        last = index
    shortened = np.insert(
        weights[:, selected], np.subtract(gaps, range(len(gaps))).astype(int), 0.0, 1
    )
    omitted = 100 * (1 - shortened.sum() / (weights.sum() or 1.0))
    note = (
        f"{len(selected)} of {sources} source tokens, those with most weight and their "
        f"neighbors; {OMITTED} stands for others, which have {omitted:.0f} % of the weight"
    )
    result = Alignment(shortened, tuple(labels), alignment.target)
    return ShortenedAlignment(result, tuple(gaps), note)
