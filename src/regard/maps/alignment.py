"""Labeled attention weights: of a sentence pair, a document and a text, and of words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

LONG_SOURCE, LONG_RATIO = 64, 4
"""A long source has more positions than this, and than this many targets."""
MAX_COLUMNS = 30
"""The most source positions of a shortened map, without the columns of gaps."""
OMITTED = "…"
"""The label of a column in place of omitted source positions."""


@dataclass(frozen=True, eq=False, repr=False)
class Alignment:
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
        TypeError: A label is not a string.
    """

    weights: np.ndarray
    source: tuple[str, ...]
    target: tuple[str, ...]

    def __repr__(self) -> str:
        targets, sources = self.weights.shape
        return f"<Alignment: {targets} target x {sources} source labels>"

    def __post_init__(self) -> None:
        weights = np.array(self.weights, dtype=np.float64)
        source = _check_labels("source", self.source)
        target = _check_labels("target", self.target)
        if weights.shape != (len(target), len(source)):
            raise ValueError(
                f"weights of shape {weights.shape} do not fit {len(target)} target and "
                f"{len(source)} source labels; expected ({len(target)}, {len(source)})"
            )
        _check_values(weights)
        weights.setflags(write=False)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "source", source)
        object.__setattr__(self, "target", target)


def _check_labels(side: str, labels: tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(labels, str):
        raise TypeError(
            f"{side} labels are one string; expected a sequence of strings, one per "
            "piece"
        )
    for label in labels:
        if not isinstance(label, str):
            kind = type(label).__name__
            raise TypeError(f"{side} label {label!r} is a {kind}; expected str")
    return tuple(labels)


def _check_values(weights: np.ndarray) -> None:
    is_bad = ~np.isfinite(weights) | (weights < 0)
    if is_bad.any():
        t, s = (int(index) for index in np.argwhere(is_bad)[0])
        raise ValueError(
            f"weight {weights[t, s]} at target {t}, source {s}; expected finite and not "
            "negative"
        )


@dataclass(frozen=True, eq=False, repr=False)
class DocumentWeights:
    """Weights of a document's sentences and of their words (Yang 2016, figures 5, 6).

    Attributes:
        sentences: Labels of the words of each sentence; there may be none.
        weights: (sentence,), finite and non-negative.
        words: For each sentence (word,), finite and non-negative.

    Raises:
        ValueError: Counts that do not fit, or a weight that is negative or not finite.
    """

    sentences: tuple[tuple[str, ...], ...]
    weights: np.ndarray
    words: tuple[np.ndarray, ...]

    def __repr__(self) -> str:
        return f"<DocumentWeights: {len(self.sentences)} sentences>"

    def __post_init__(self) -> None:
        weights = _freeze("sentences", self.weights, len(self.sentences))
        if len(self.words) != len(self.sentences):
            raise ValueError(
                f"weights of the words of {len(self.words)} sentences; expected "
                f"{len(self.sentences)}"
            )
        words = []
        for index, (row, labels) in enumerate(
            zip(self.words, self.sentences, strict=True)
        ):
            words.append(_freeze(f"the words of sentence {index}", row, len(labels)))
        object.__setattr__(self, "sentences", tuple(map(tuple, self.sentences)))
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "words", tuple(words))


def _freeze(name: str, weights: np.ndarray, count: int) -> np.ndarray:
    """Return a read-only float64 copy."""
    copy = np.array(weights, dtype=np.float64)
    if copy.shape != (count,):
        raise ValueError(
            f"weights of {name} have shape {copy.shape}; expected ({count},)"
        )
    if not np.isfinite(copy).all() or (copy < 0).any():
        raise ValueError(
            f"weights of {name} are {copy}; expected finite and not negative"
        )
    copy.setflags(write=False)
    return copy


@dataclass(frozen=True, eq=False, repr=False)
class TextWeights:
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
                f"weights of shape {weights.shape}, {len(self.texts)} texts and "
                f"{count} labels do not fit"
            )
        if not np.isfinite(weights).all():
            raise ValueError(f"weights are {weights}; expected finite numbers")
        weights.setflags(write=False)
        object.__setattr__(self, "weights", weights)

    @property
    def signed(self) -> bool:
        """Whether a part speaks against the output."""
        return bool((self.weights < 0).any())


def stack_texts(items: Sequence[TextWeights]) -> TextWeights:
    """Join at least one text to one, with the name of the first."""
    labels: list[str] = []
    texts: list[int] = []
    glued: list[bool] = []
    framed: set[int] = set()
    next_text = 0
    for item in items:
        framed |= {len(labels) + part for part in item.framed}
        labels += item.labels
        texts += [next_text + text for text in item.texts]
        glued += item.glued
        next_text += max(item.texts, default=0) + 1
    return TextWeights(
        tuple(labels),
        np.concatenate([item.weights for item in items]),
        items[0].name,
        tuple(texts),
        tuple(glued),
        any(item.averaged for item in items),
        frozenset(framed),
    )


class Words(NamedTuple):
    """The words of pieces.

    Attributes:
        labels: The words that have a piece.
        indices: The word of each piece, counted from 0.
    """

    labels: tuple[str, ...]
    indices: tuple[int, ...]


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
    if weights.ndim < 2:
        raise ValueError(
            f"weights of shape {weights.shape}; expected at least (target, source)"
        )
    source = _membership("source", source_words, weights.shape[-1])
    target = _membership("target", target_words, weights.shape[-2])
    mean = target / target.sum(axis=0)
    return mean.T @ weights @ source


def word_alignment(
    alignment: Alignment, source_words: Sequence[int], target_words: Sequence[int]
) -> Alignment:
    """Return the alignment between words; a word's label is its pieces' labels, joined.

    Raises:
        ValueError: As `join_words`.
    """
    return Alignment(
        join_words(alignment.weights, source_words, target_words),
        _join_labels(alignment.source, source_words),
        _join_labels(alignment.target, target_words),
    )


def _membership(side: str, words: Sequence[int], pieces: int) -> np.ndarray:
    """Return (pieces, words), 1.0 where a piece belongs to a word."""
    if len(words) != pieces:
        raise ValueError(
            f"{len(words)} {side} word indices for {pieces} {side} pieces; expected one "
            "per piece"
        )
    index = np.array([int(word) for word in words], dtype=np.int64)
    if pieces and index.min() < 0:
        raise ValueError(
            f"{side} word index {index.min()} is negative; expected 0 or more"
        )
    count = int(index.max()) + 1 if pieces else 0
    # an index beyond the pieces leaves a gap before it, so no more need a look
    absent = sorted(set(range(min(count, pieces + 1))) - set(index.tolist()))
    if absent:
        raise ValueError(
            f"{side} word {absent[0]} has no piece; expected every index from 0 to "
            f"{count - 1}"
        )
    member = np.zeros((pieces, count))
    member[np.arange(pieces), index] = 1.0
    return member


def _join_labels(labels: tuple[str, ...], words: Sequence[int]) -> tuple[str, ...]:
    joined: dict[int, str] = {}
    for label, word in zip(labels, words, strict=True):
        joined[int(word)] = joined.get(int(word), "") + label
    return tuple(joined[word] for word in sorted(joined))


@dataclass(frozen=True)
class ShortenedAlignment:
    """A map of fewer source positions.

    Attributes:
        alignment: Its weights; the column of a gap has none.
        gaps: The numbers of the columns that stand for omitted positions.
        note: What is shown, in one line.
    """

    alignment: Alignment
    gaps: tuple[int, ...]
    note: str


def is_long(alignment: Alignment) -> bool:
    """Check whether only the strongest source positions of a map should be drawn."""
    targets, sources = alignment.weights.shape
    return sources > max(LONG_SOURCE, LONG_RATIO * targets)


def select_strongest(
    alignment: Alignment, count: int = MAX_COLUMNS
) -> ShortenedAlignment:
    """Select the source positions with the largest weights, and their neighbors."""
    selected = _select_columns(alignment.weights, count)
    columns: list[int | None] = []
    for index in np.flatnonzero(selected).tolist():
        if index and not selected[index - 1]:
            columns.append(None)
        columns.append(index)
    if selected.size and not selected[-1]:
        columns.append(None)

    weights = np.zeros((len(alignment.target), len(columns)))
    labels, gaps = [], []
    for number, column in enumerate(columns):
        if column is None:
            gaps.append(number)
            labels.append(OMITTED)
        else:
            weights[:, number] = alignment.weights[:, column]
            labels.append(alignment.source[column])
    total = alignment.weights.sum() or 1.0
    omitted = 100 * alignment.weights[:, ~selected].sum() / total
    note = (
        f"{selected.sum()} of {selected.size} source tokens, those with most weight "
        f"and their neighbors; {OMITTED} stands for others, which have {omitted:.0f} % "
        "of the weight"
    )
    shortened = Alignment(weights, tuple(labels), alignment.target)
    return ShortenedAlignment(shortened, tuple(gaps), note)


def _select_columns(
    weights: Float[np.ndarray, "target source"], count: int
) -> Bool[np.ndarray, " source"]:
    """Select the positions of the largest weights and their neighbors, if they fit."""
    selected = np.zeros(weights.shape[1], dtype=bool)
    for index in np.argsort(-weights.max(0, initial=0.0), kind="stable"):
        wider = selected.copy()
        wider[max(0, index - 1) : index + 2] = True
        if wider.sum() > count:
            break
        selected = wider
    return selected
