"""Attention of one sequence to another in every layer and head, and further maps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from einops import rearrange
from jaxtyping import Float, UInt8

from regard.maps.alignment import Alignment, DocumentWeights, TextWeights, Words
from regard.maps.breakdown import Breakdown
from regard.maps.reductions import average_maps

Labels = tuple[str, ...]
ATTENDS_TO = ("attends to", "is attended to")
"""The default verbs of a lookup."""
SINK_WEIGHT, SINK_MULTIPLE = 0.3, 3.0
"""A head's sink has at least this mean weight over queries (Gu 2025, 2410.10781,
section 3.1), and this many times a uniform one."""
SINK_HEADS = 1 / 3
"""The share of heads with a common sink: first layers, and heads that attend to
neighbors, often have none."""
FEW_KEYS = 4
"""A text of so few keys has no sink: each takes much of the weight."""
MIN_TAPE_WEIGHT = 0.01
"""Rows of a tape after the last one with this weight are not shown."""


@dataclass(frozen=True, eq=False, repr=False)
class AlternativeMap:
    """A map beside the weights of lookups, with its own layers and heads.

    Attributes:
        weights: (layer, head, target, source), finite, of any sign. Stored as a
            read-only float32 copy.
        layers: A name for each layer. Default: "layer 0" and so on.
        source: Its source labels, if they differ from those of the lookups.
        target: Its target labels, if they differ.
        amounts: Whether the numbers have a unit, as norms do, and are no shares.
        verbs: Verbs from target to source and back, if they differ.

    Raises:
        ValueError: Weights that are not finite or have other axes.
        TypeError: Labels that are one string.
    """

    weights: np.ndarray
    layers: Labels = ()
    source: Labels | None = None
    target: Labels | None = None
    amounts: bool = False
    verbs: tuple[str, str] | None = None

    def __repr__(self) -> str:
        return f"<AlternativeMap: {_describe_shape(self.weights)}>"

    def __post_init__(self) -> None:
        weights = freeze_weights("weights", self.weights)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "layers", name_layers(weights, self.layers))
        for side in ("source", "target"):
            labels = getattr(self, side)
            if labels is not None:
                object.__setattr__(self, side, check_labels(side, labels))

    def labels(self, source: Labels, target: Labels) -> tuple[Labels, Labels]:
        """Return its source and target labels, by default those of the lookups."""
        return (
            source if self.source is None else self.source,
            target if self.target is None else self.target,
        )


def _describe_shape(weights: np.ndarray) -> str:
    layers, heads, targets, sources = weights.shape
    return (
        f"{layers} layers x {heads} heads, {targets} target x {sources} source labels"
    )


def freeze_weights(name: str, weights: np.ndarray) -> np.ndarray:
    """Return a read-only float32 copy.

    Raises:
        ValueError: It has not four axes or is not finite.
    """
    copy = np.array(weights, dtype=np.float32)
    if copy.ndim != 4:
        raise ValueError(
            f"{name} have shape {copy.shape}; expected (layer, head, target, source)"
        )
    if not np.isfinite(copy).all():
        raise ValueError(f"{name} are not all finite")
    copy.setflags(write=False)
    return copy


def name_layers(weights: np.ndarray, layers: Labels) -> Labels:
    """Return the layers' names, by default their numbers."""
    return tuple(layers) or tuple(f"layer {number}" for number in range(len(weights)))


def check_labels(side: str, labels: Labels) -> Labels:
    """Return the labels as a tuple.

    Raises:
        TypeError: They are one string.
    """
    if isinstance(labels, str):
        raise TypeError(
            f"{side} labels are one string; expected a sequence of strings, one per "
            "piece"
        )
    return tuple(labels)


def check_fit(
    name: str, weights: np.ndarray, layers: Labels, source: Labels, target: Labels
) -> None:
    """Check that weights fit their layers and labels.

    Raises:
        ValueError: They don't, or there is no layer or head.
    """
    if weights.shape[2:] != (len(target), len(source)) or len(layers) != len(weights):
        raise ValueError(
            f"{name} of shape {weights.shape} do not fit {len(layers)} layers, "
            f"{len(target)} target and {len(source)} source labels; expected (layer, "
            "head, target, source)"
        )
    if not all(weights.shape[:2]):
        raise ValueError(
            f"{name} of shape {weights.shape} hold no layer or no head; expected at "
            "least 1 of each"
        )


@dataclass(frozen=True, eq=False)
class Patches:
    """An image cut into patches, which are source labels, row by row, from `first`."""

    pixels: UInt8[np.ndarray, "height width channel"]
    rows: int
    columns: int
    first: int = 0


@dataclass(frozen=True, eq=False, repr=False)
class Lookups:
    """Attention of one pair of sequences, or of a sequence to itself.

    Attributes:
        weights: (layer, head, target, source), finite and non-negative. Stored, as all
            maps, as a read-only float32 copy.
        source: The source labels.
        target: The target labels.
        name: A name among other lookups, such as a model or a part of it.
        layers: A name for each layer. Default: "layer 0" and so on.
        others: Further maps by name, each with its own layers and heads.
        source_words: The words of the source labels.
        target_words: The words of the target labels.
        sentences: For each source label the index of its sentence, ascending.
        notes: A remark on each target label, such as the value of a gate.
        patches: The image whose patches are source labels.
        images: An image for each source label.
        breakdown: The scores and values behind the weights.
        verbs: Verbs from a target label to a source label, and back.
        kind: The name of the weights among the maps.
        amounts: Whether weights have a unit, as norms do, and are no shares of a row.
        signed: Whether weights may be negative, as gradient x input is.
        first: The map that a page shows first, as shaded text. Default: the weights, in
            their own view.

    Raises:
        ValueError: Shapes and counts that do not fit, or a weight that is negative or
            not finite.
        TypeError: Labels that are one string.
    """

    weights: np.ndarray
    source: tuple[str, ...]
    target: tuple[str, ...]
    name: str = ""
    layers: tuple[str, ...] = ()
    others: Mapping[str, AlternativeMap] = field(default_factory=dict)
    source_words: Words | None = None
    target_words: Words | None = None
    sentences: tuple[int, ...] | None = None
    notes: tuple[str, ...] = ()
    patches: Patches | None = None
    images: UInt8[np.ndarray, "source height width channel"] | None = None
    breakdown: Breakdown | None = None
    verbs: tuple[str, str] = ATTENDS_TO
    kind: str = "weights"
    amounts: bool = False
    signed: bool = False
    first: str | None = None

    def __repr__(self) -> str:
        names = ", ".join([self.name or self.kind, *self.others])
        return f"<Lookups {names}: {_describe_shape(self.weights)}>"

    def __post_init__(self) -> None:
        weights = freeze_weights("weights", self.weights)
        source = check_labels("source", self.source)
        target = check_labels("target", self.target)
        layers = name_layers(weights, self.layers)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "layers", layers)
        object.__setattr__(self, "source", source)
        object.__setattr__(self, "target", target)
        check_fit("weights", weights, layers, source, target)
        for name, item in self.others.items():
            check_fit(name, item.weights, item.layers, *item.labels(source, target))
        if (weights < 0).any() and not self.signed:
            raise ValueError(
                f"weights hold {weights.min()}; expected no negative weight"
            )
        sources, targets = len(source), len(target)
        source_words = self.source_words and self.source_words.indices
        target_words = self.target_words and self.target_words.indices
        self._check_count("source_words", source_words, sources)
        self._check_count("target_words", target_words, targets)
        self._check_count("sentences", self.sentences, sources)
        self._check_count("notes", self.notes or None, targets)
        self._check_count("images", self.images, sources)
        steps = pairwise(self.sentences or ())
        if any(following < sentence for sentence, following in steps):
            raise ValueError(
                "the sentence indices of source labels decrease; expected ascending order"
            )
        self._check_parts()

    def _check_count(self, name: str, values: Any, expected: int) -> None:
        if values is not None and len(values) != expected:
            raise ValueError(
                f"{len(values)} {name} for {expected} labels; expected one each"
            )

    def _check_parts(self) -> None:
        layers, heads, _, sources = self.weights.shape
        if self.breakdown is not None:
            shapes = (self.breakdown.of.shape, self.breakdown.value.shape[:3])
            expected = (self.weights.shape, (layers, heads, sources))
            if shapes != expected:
                raise ValueError(
                    "scores, and values but for their width, have shapes "
                    f"{shapes}; expected {expected}"
                )
        if self.patches is not None:
            last = self.patches.first + self.patches.rows * self.patches.columns
            if last > sources:
                raise ValueError(
                    f"patches up to label {last} of {sources}; expected every patch to "
                    "be a source label"
                )


def mean_alignment(lookups: Lookups, maps: Sequence[int] | None = None) -> Alignment:
    """Average the magnitudes of all maps, or of those with these numbers.

    A number is layer x heads + head.

    Raises:
        InputError: There is no map of a number.
    """
    weights = rearrange(
        np.abs(lookups.weights),
        "layer head target source -> (layer head) target source",
    )
    mean = average_maps(weights.astype(np.float64), maps)
    return Alignment(mean, lookups.source, lookups.target)


def with_maps(lookups: Lookups, *others: Lookups) -> Lookups:
    """Add the maps of other lookups of the same sequences, each by its kind.

    Maps with different labels keep theirs.
    """
    maps = dict(lookups.others)
    for item in others:
        main = AlternativeMap(item.weights, item.layers, amounts=item.amounts)
        for name, extra in {item.kind: main, **item.others}.items():
            if name == lookups.kind:
                continue
            source, target = extra.labels(item.source, item.target)
            verbs = extra.verbs or item.verbs
            maps[name] = replace(
                extra,
                source=None if source == lookups.source else source,
                target=None if target == lookups.target else target,
                verbs=None if verbs == lookups.verbs else verbs,
            )
    return replace(lookups, others=maps)


def select_rows(
    lookups: Lookups, rows: slice, target: tuple[str, ...], words: Words | None = None
) -> Lookups:
    """Select some rows of all maps, with new target labels and their words.

    Raises:
        ValueError: The rows of a map have their own labels, or labels and rows differ
            in number.
    """
    others = {}
    for name, item in lookups.others.items():
        if item.target is not None:
            raise ValueError(
                f"rows of {name} have labels of their own, which differ from those of "
                "the weights"
            )
        others[name] = replace(item, weights=item.weights[:, :, rows])
    breakdown = lookups.breakdown
    return replace(
        lookups,
        weights=lookups.weights[:, :, rows],
        others=others,
        target=target,
        target_words=words,
        notes=lookups.notes[rows],
        breakdown=None if breakdown is None else breakdown.select_rows(rows),
    )


def patch_labels(rows: int, columns: int) -> tuple[str, ...]:
    """Return the labels of patches: row and column, counted from 1."""
    labels = []
    for row in range(1, rows + 1):
        labels += [f"row {row}, column {column}" for column in range(1, columns + 1)]
    return tuple(labels)


def lookups_from_alignment(alignment: Alignment, *, name: str = "") -> Lookups:
    """Return lookups with one layer and one head."""
    weights, layers = alignment.weights[None, None], ("weights",)
    return Lookups(weights, alignment.source, alignment.target, name, layers=layers)


def lookups_from_text(text: TextWeights, kind: str = "weights") -> Lookups:
    """Return the lookup of one query, an output, over the parts of a text."""
    weights = text.weights[None, None, None]
    return Lookups(
        weights, text.labels, (text.name,), layers=(kind,), kind=kind, signed=True
    )


def lookups_from_document(
    document: DocumentWeights, label: str = "document"
) -> Lookups:
    """Return the lookup of one query, the document, over all words.

    A word's weight is its sentence's times its own within the sentence (Yang 2016).
    """
    words, source, sentences = [np.zeros(0)], [], []
    for index, labels in enumerate(document.sentences):
        words.append(document.weights[index] * document.words[index])
        source += labels
        sentences += [index] * len(labels)
    return Lookups(
        np.concatenate(words)[None, None, None],
        tuple(source),
        (label,),
        layers=("weights",),
        sentences=tuple(sentences),
    )


def find_sinks(weights: Float[np.ndarray, "*_map target source"]) -> dict[int, float]:
    """Find attention sinks, and the mean weight of each over all maps.

    A sink is a key that takes much of the weight of nearly every query, whatever it is
    (Xiao et al. 2024, 2309.17453). Only queries that attend to several keys count.
    """
    maps = weights.reshape(-1, *weights.shape[-2:])
    if maps.shape[-1] <= FEW_KEYS:
        return {}
    has_choice = (maps > 0).any(0).sum(-1) > 1
    if not has_choice.any():
        return {}
    means = maps[:, has_choice].mean(1)
    least = max(SINK_WEIGHT, SINK_MULTIPLE / maps.shape[-1])
    share = (means >= least).mean(0)
    keys = np.flatnonzero(share >= SINK_HEADS)
    return {int(key): float(means[:, key].mean()) for key in keys}


def remove_keys(
    weights: Float[np.ndarray, "*map target source"], keys: dict[int, float]
) -> Float[np.ndarray, "*map target source"]:
    """Return the weights of the other keys as shares; a row without one is zeros."""
    remaining = weights.copy()
    remaining[..., list(keys)] = 0.0
    total = remaining.sum(-1, keepdims=True)
    zeros = np.zeros_like(remaining)
    return np.divide(remaining, total, out=zeros, where=total > 0)


def label_sinks(lookups: Lookups) -> Lookups:
    """Add each sink's mean weight to its label, and a map without sinks.

    Lookups without a sink are unchanged.
    """
    sinks = find_sinks(lookups.weights)
    if not sinks:
        return lookups
    labels = list(lookups.source)
    for index, weight in sinks.items():
        labels[index] += f" (sink, {100 * weight:.0f} %)"
    source = tuple(labels)
    target = source if lookups.target == lookups.source else lookups.target
    extra = AlternativeMap(remove_keys(lookups.weights, sinks), lookups.layers)
    others = {"without sinks": extra, **lookups.others}
    return replace(lookups, source=source, target=target, others=others)


@dataclass(frozen=True, eq=False)
class TapeUse:
    """The steps of a machine with a tape.

    Attributes:
        inputs: The input at each step.
        outputs: The output bits or their probabilities; NaN where none is expected.
        reading: The weights with which each head read the tape.
        writing: The weights with which each head wrote to it.
    """

    inputs: Float[np.ndarray, "step input_width"]
    outputs: Float[np.ndarray, "step output_width"]
    reading: Float[np.ndarray, "read_head step row"]
    writing: Float[np.ndarray, "write_head step row"]

    @property
    def rows(self) -> int:
        """The number of rows up to the last one in use."""
        weights = np.concatenate([self.writing, self.reading])
        used = np.flatnonzero((weights >= MIN_TAPE_WEIGHT).any((0, 1)))
        return int(used[-1]) + 1 if len(used) else min(1, weights.shape[-1])

    def lookups(self) -> tuple[Lookups, Lookups]:
        """Return the reads and the writes of every head on the rows in use.

        A step's label is its input, or its output bits where an output is expected.
        """
        rows = tuple(f"row {row}" for row in range(self.rows))
        steps = []
        for number, step in enumerate(zip(self.inputs, self.outputs, strict=True)):
            steps.append(f"{number}: {_label_step(*step)}")
        reads, writes = (
            Lookups(
                weights[None, ..., : len(rows)],
                rows,
                tuple(steps),
                name,
                layers=("tape",),
                verbs=verbs,
            )
            for weights, name, verbs in (
                (self.reading, "reads from the tape", ("reads", "is read")),
                (self.writing, "writes to the tape", ("writes", "is written")),
            )
        )
        return reads, writes


def _label_step(
    inputs: Float[np.ndarray, " input_width"],
    outputs: Float[np.ndarray, " output_width"],
) -> str:
    """Label a step. Marks have their own channels, and counts are no bits."""
    if not np.isnan(outputs).any():
        return "out " + "".join(str(int(bit)) for bit in outputs > 0.5)
    values = []
    for value in inputs:
        values.append(f"{value:g}" if value in (0, 1) else f" {value:.2f}")
    return "in " + "".join(values)
