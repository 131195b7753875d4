"""Attention of one sequence to another, in every layer and head."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from einops import rearrange
from jaxtyping import UInt8

from regard.maps.alignment import Alignment
from regard.maps.averages import average_of
from regard.maps.breakdown import Breakdown
from regard.maps.document import DocumentWeights
from regard.maps.other_map import (
    OtherMap,
    check_fit,
    frozen_weights,
    labels_of,
    names_of,
)
from regard.maps.text import TextWeights
from regard.maps.words import Words

READS = ("reads", "is read")
"""The default verbs of a lookup."""


@dataclass(frozen=True, eq=False)
class Patches:
    """An image cut into `rows` x `columns` patches. Its patches are source labels, row by row, from label `first`
    on."""

    pixels: UInt8[np.ndarray, "height width channel"]
    rows: int
    columns: int
    first: int = 0


@dataclass(frozen=True, eq=False, repr=False)
class Lookups:
    """Attention of one pair of sequences, or of a sequence to itself.

    weights: (layer, head, target, source), finite and non-negative. Stored, as all maps, as a read-only float32 copy.
    source, target: their labels.
    name: a name among other lookups, such as a model or a part of it.
    layers: a name for each layer. Default "layer 0" and so on.
    others: further maps by name, each with its own layers and heads.
    source_words, target_words: the words of the labels.
    sentences: for each source label the index of its sentence, in ascending order.
    notes: a remark on each target label, such as the value of a gate.
    patches: the image whose patches are source labels.
    images: an image for each source label.
    breakdown: the scores and values behind the weights.
    verbs: verbs from a target label to a source label, and back.
    kind: name of the weights among the maps.
    amounts: whether weights have a unit, as norms do, and are not shares of a row.
    signed: whether weights may be negative, as gradient x input is.
    first: name of the map that a page shows first, as shaded text. Default: the weights, in their own view.

    Raises ValueError for shapes and counts that do not fit, or a weight that is negative or not finite, and TypeError
    for labels that are one string.
    """

    weights: np.ndarray
    source: tuple[str, ...]
    target: tuple[str, ...]
    name: str = ""
    layers: tuple[str, ...] = ()
    others: Mapping[str, OtherMap] = field(default_factory=dict)
    source_words: Words | None = None
    target_words: Words | None = None
    sentences: tuple[int, ...] | None = None
    notes: tuple[str, ...] = ()
    patches: Patches | None = None
    images: UInt8[np.ndarray, "source height width channel"] | None = None
    breakdown: Breakdown | None = None
    verbs: tuple[str, str] = READS
    kind: str = "weights"
    amounts: bool = False
    signed: bool = False
    first: str | None = None

    def __repr__(self) -> str:
        layers, heads, targets, sources = self.weights.shape
        shape = f"{layers} layers x {heads} heads, {targets} target x {sources} source labels"
        return f"<Lookups {', '.join([self.name or self.kind, *self.others])}: {shape}>"

    def __post_init__(self) -> None:
        weights = frozen_weights("weights", self.weights)
        source, target = (
            labels_of("source", self.source),
            labels_of("target", self.target),
        )
        layers = names_of(weights, self.layers)
        for name, value in (
            ("weights", weights),
            ("layers", layers),
            ("source", source),
            ("target", target),
        ):
            object.__setattr__(self, name, value)
        check_fit("weights", weights, layers, source, target)
        for name, other in self.others.items():
            check_fit(name, other.weights, other.layers, *other.labels(source, target))
        if (weights < 0).any() and not self.signed:
            raise ValueError(
                f"weights hold {weights.min()}; expected no negative weight"
            )
        self._check_counts()
        self._check_parts()

    def _check_counts(self) -> None:
        counts = (
            (
                "source_words",
                self.source_words and self.source_words.indices,
                len(self.source),
            ),
            (
                "target_words",
                self.target_words and self.target_words.indices,
                len(self.target),
            ),
            ("sentences", self.sentences, len(self.source)),
            ("notes", self.notes or None, len(self.target)),
            ("images", self.images, len(self.source)),
        )
        for name, values, expected in counts:
            if values is not None and len(values) != expected:
                raise ValueError(
                    f"{len(values)} {name} for {expected} labels; expected one each"
                )
        if self.sentences is not None and any(
            b < a for a, b in zip(self.sentences, self.sentences[1:], strict=False)
        ):
            raise ValueError(
                "the sentence indices of source labels decrease; expected ascending order"
            )

    def _check_parts(self) -> None:
        layers, heads, _, sources = self.weights.shape
        if self.breakdown is not None:
            shapes = (self.breakdown.of.shape, self.breakdown.value.shape[:3])
            expected = (self.weights.shape, (layers, heads, sources))
            if shapes != expected:
                raise ValueError(
                    f"scores, and values but for their width, have shapes {shapes}; expected {expected}"
                )
        if self.patches is not None:
            last = self.patches.first + self.patches.rows * self.patches.columns
            if last > sources:
                raise ValueError(
                    f"patches up to label {last} of {sources}; expected every patch to be a source label"
                )


def mean_alignment(lookups: Lookups, maps: Sequence[int] | None = None) -> Alignment:
    """The mean of all maps, or of those with these numbers, layer x heads + head; of signed ones their magnitudes.
    Raises InputError for a number without a map."""
    weights = rearrange(
        np.abs(lookups.weights),
        "layer head target source -> (layer head) target source",
    )
    return Alignment(
        average_of(weights.astype(np.float64), maps), lookups.source, lookups.target
    )


def beside(lookups: Lookups, *others: Lookups) -> Lookups:
    """Lookups with the maps of other lookups of the same sequences as `others`, each by its kind. Maps with different
    labels keep their own."""
    maps = dict(lookups.others)
    for each in others:
        own = OtherMap(each.weights, each.layers, amounts=each.amounts)
        for name, other in {each.kind: own, **each.others}.items():
            if name != lookups.kind:
                (source, target), verbs = (
                    other.labels(each.source, each.target),
                    other.verbs or each.verbs,
                )
                maps[name] = replace(
                    other,
                    source=None if source == lookups.source else source,
                    target=None if target == lookups.target else target,
                    verbs=None if verbs == lookups.verbs else verbs,
                )
    return replace(lookups, others=maps)


def of_rows(
    lookups: Lookups, rows: slice, target: tuple[str, ...], words: Words | None = None
) -> Lookups:
    """Some rows of all maps, with new target labels and their words. Raises ValueError for a map whose rows have their
    own labels, and if labels and rows differ in number."""
    if named := [
        name for name, each in lookups.others.items() if each.target is not None
    ]:
        raise ValueError(
            f"rows of {named[0]} have labels of their own, which differ from those of the weights"
        )
    breakdown = None if lookups.breakdown is None else lookups.breakdown.of_rows(rows)
    others = {
        name: replace(each, weights=each.weights[:, :, rows])
        for name, each in lookups.others.items()
    }
    weights, notes = lookups.weights[:, :, rows], lookups.notes[rows]
    own = {
        "target": target,
        "target_words": words,
        "notes": notes,
        "breakdown": breakdown,
    }
    return replace(lookups, weights=weights, others=others, **own)


def patch_labels(rows: int, columns: int) -> tuple[str, ...]:
    """Labels of patches: row and column, counted from 1."""
    return tuple(
        f"row {row + 1}, column {column + 1}"
        for row in range(rows)
        for column in range(columns)
    )


def of_alignment(alignment: Alignment, *, name: str = "") -> Lookups:
    """Lookups with one layer and one head."""
    return Lookups(
        alignment.weights[None, None],
        alignment.source,
        alignment.target,
        name,
        layers=("weights",),
    )


def of_text(text: TextWeights, kind: str = "weights") -> Lookups:
    """The lookup of one query, an output, over the parts of a text."""
    weights = text.weights[None, None, None]
    return Lookups(
        weights, text.labels, (text.name,), layers=(kind,), kind=kind, signed=True
    )


def of_document(document: DocumentWeights, label: str = "document") -> Lookups:
    """The lookup of one query, the document, over all words: a word's weight is its sentence's times its own within the
    sentence (Yang 2016)."""
    words = [
        weight * each
        for weight, each in zip(document.weights, document.words, strict=True)
    ]
    source = tuple(word for sentence in document.sentences for word in sentence)
    places = tuple(
        place for place, sentence in enumerate(document.sentences) for _ in sentence
    )
    weights = np.concatenate([*words, np.zeros(0)])[None, None, None]
    return Lookups(weights, source, (label,), layers=("weights",), sentences=places)
