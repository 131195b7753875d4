"""Attention of one sequence to another in every layer and head, and further maps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from einops import rearrange
from jaxtyping import Float, UInt8

from regard.maps.alignment import (
    Alignment,
    DocumentWeights,
    TextWeights,
    Words,
    check_labels,
    freeze,
    set_fields,
)
from regard.maps.breakdown import Breakdown
from regard.maps.reductions import average_maps, shares

Labels = tuple[str, ...]
ATTENDS_TO = ("attends to", "is attended to")
"""The default verbs of a lookup."""
AXES = ("layer", "head", "target", "source")
SINK_WEIGHT, SINK_MULTIPLE = 0.3, 3.0
"""A head's sink has at least this mean weight over queries (Gu 2025, 2410.10781,
section 3.1), and this many times a uniform one."""
SINK_HEADS = 1 / 3
"""The share of heads with a common sink: first layers, and heads that attend to
neighbors, often have none."""
FEW_KEYS = 4
"""A text of so few keys has no sink: each takes much of the weight."""
MIN_TAPE_WEIGHT = 0.01
"""Rows of a tape after the last one with this weight are not drawn."""


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
        weights = freeze("weights", self.weights, AXES, np.float32, signed=True)
        set_fields(self, weights=weights, layers=name_layers(weights, self.layers))


def _describe_shape(weights: np.ndarray) -> str:
    layers, heads, targets, sources = weights.shape
    return (
        f"{layers} layers x {heads} heads, {targets} target x {sources} source labels"
    )


def name_layers(weights: np.ndarray, layers: Labels) -> Labels:
    """Return the layers' names, by default their numbers."""
    return tuple(layers) or tuple(f"layer {number}" for number in range(len(weights)))


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
        alternatives: Further maps by name, each with its own layers and heads.
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
    source: Labels
    target: Labels
    name: str = ""
    layers: Labels = ()
    alternatives: Mapping[str, AlternativeMap] = field(default_factory=dict)
    source_words: Words | None = None
    target_words: Words | None = None
    sentences: tuple[int, ...] | None = None
    notes: Labels = ()
    patches: Patches | None = None
    images: UInt8[np.ndarray, "source height width channel"] | None = None
    breakdown: Breakdown | None = None
    verbs: tuple[str, str] = ATTENDS_TO
    kind: str = "weights"
    amounts: bool = False
    signed: bool = False
    first: str | None = None

    def __repr__(self) -> str:
        names = ", ".join([self.name or self.kind, *self.alternatives])
        return f"<Lookups {names}: {_describe_shape(self.weights)}>"

    def __post_init__(self) -> None:
        source = check_labels("source", self.source)
        target = check_labels("target", self.target)
        sources = len(source)
        targets = len(target)
        shape = (*AXES[:2], targets, sources)
        weights = freeze("weights", self.weights, shape, np.float32, signed=self.signed)
        set_fields(
            self,
            weights=weights,
            layers=name_layers(weights, self.layers),
            source=source,
            target=target,
        )
        for name, item in {"weights": self, **self.alternatives}.items():
            layers, heads, *sides = item.weights.shape
            layer_names = len(item.layers)
            target_labels = len(item.target or target)
            source_labels = len(item.source or source)
            if [layers, *sides] != [layer_names, target_labels, source_labels]:
                raise ValueError(
                    f"{name} of shape {item.weights.shape} do not fit {layer_names} "
                    f"layers, {target_labels} target and {source_labels} source labels"
                )
            if not layers or not heads:
                raise ValueError(
                    f"{name} of shape {item.weights.shape} hold no layer or no head; "
                    "expected at least 1 of each"
                )
        counts = {
            "source_words": (self.source_words and self.source_words.indices, sources),
            "target_words": (self.target_words and self.target_words.indices, targets),
            "sentences": (self.sentences, sources),
            "notes": (self.notes or None, targets),
            "images": (self.images, sources),
        }
        for name, (values, expected) in counts.items():
            if values is not None and len(values) != expected:
                raise ValueError(
                    f"{len(values)} {name} for {expected} labels; expected one each"
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


def with_maps(lookups: Lookups, *kinds: Lookups) -> Lookups:
    """Add the maps of other lookups of the same sequences, each by its kind.

    Maps with different labels keep theirs.
    """

    def unless_equal(value, default):
        return None if value == default else value

    maps = dict(lookups.alternatives)
    for item in kinds:
        main = AlternativeMap(item.weights, item.layers, amounts=item.amounts)
        for name, extra in {item.kind: main, **item.alternatives}.items():
            if name != lookups.kind:
                maps[name] = replace(
                    extra,
                    source=unless_equal(extra.source or item.source, lookups.source),
                    target=unless_equal(extra.target or item.target, lookups.target),
                    verbs=unless_equal(extra.verbs or item.verbs, lookups.verbs),
                )
    return replace(lookups, alternatives=maps)


def select_rows(
    lookups: Lookups, rows: slice, target: Labels, words: Words | None = None
) -> Lookups:
    """Select some rows of all maps, with new target labels and their words.

    Raises:
        ValueError: Labels and rows differ in number.
    """
    alternatives = {
        name: replace(item, weights=item.weights[:, :, rows])
        for name, item in lookups.alternatives.items()
    }
    breakdown = lookups.breakdown
    return replace(
        lookups,
        weights=lookups.weights[:, :, rows],
        alternatives=alternatives,
        target=target,
        target_words=words,
        notes=lookups.notes[rows],
        breakdown=breakdown and breakdown.select_rows(rows),
    )


def patch_labels(rows: int, columns: int) -> Labels:
    """Return the labels of patches: row and column, counted from 1."""
    return tuple(
        f"row {row}, column {column}"
        for row in range(1, rows + 1)
        for column in range(1, columns + 1)
    )


def lookups_from_alignment(alignment: Alignment, *, name: str = "") -> Lookups:
    """Return lookups with one layer and one head."""
    return Lookups(
        alignment.weights[None, None],
        alignment.source,
        alignment.target,
        name,
        layers=("weights",),
    )


def lookups_from_text(text: TextWeights, kind: str = "weights") -> Lookups:
    """Return the lookup of one query, an output, over the parts of a text."""
    return Lookups(
        text.weights[None, None, None],
        text.labels,
        (text.name,),
        layers=(kind,),
        kind=kind,
        signed=True,
    )


def lookups_from_document(
    document: DocumentWeights, label: str = "document"
) -> Lookups:
    """Return the lookup of one query, the document, over all words.

    A word's weight is its sentence's times its own within the sentence (Yang 2016).
    """
    weights = [np.zeros(0)]
    source = []
    sentences = []
    for index, labels in enumerate(document.sentences):
        weights.append(document.weights[index] * document.words[index])
        source += labels
        sentences += [index] * len(labels)
    return Lookups(
        np.concatenate(weights)[None, None, None],
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
    sources = maps.shape[-1]
    visible_keys = (maps > 0).any(0).sum(-1)
    has_choice = visible_keys > 1
    if sources <= FEW_KEYS or not has_choice.any():
        return {}
    means = maps[:, has_choice].mean(1)
    least = max(SINK_WEIGHT, SINK_MULTIPLE / sources)
    share_of_maps = (means >= least).mean(0)
    sinks = {}
    for key in np.flatnonzero(share_of_maps >= SINK_HEADS).tolist():
        sinks[key] = float(means[:, key].mean())
    return sinks


def remove_keys(
    weights: Float[np.ndarray, "*map target source"], keys: dict[int, float]
) -> Float[np.ndarray, "*map target source"]:
    """Return the weights of the other keys as shares; a row without one is zeros."""
    remaining = weights.copy()
    remaining[..., list(keys)] = 0.0
    return shares(remaining)


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
    target = lookups.target
    if target == lookups.source:
        target = source
    remaining = remove_keys(lookups.weights, sinks)
    extra = AlternativeMap(remaining, lookups.layers)
    return replace(
        lookups,
        source=source,
        target=target,
        alternatives={"without sinks": extra, **lookups.alternatives},
    )


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
        is_used = (weights >= MIN_TAPE_WEIGHT).any((0, 1))
        used = np.flatnonzero(is_used)
        if len(used):
            return int(used[-1]) + 1
        return min(1, weights.shape[-1])

    def lookups(self) -> tuple[Lookups, Lookups]:
        """Return the reads and the writes of every head on the rows in use.

        A step's label is its input, or its output bits where an output is expected.
        Marks in the input have their own channels, and counts are no bits.
        """
        rows = tuple(f"row {row}" for row in range(self.rows))
        steps = []
        for step, output in enumerate(self.outputs):
            if np.isnan(output).any():
                label = f"{step}: in "
                for value in self.inputs[step]:
                    label += f"{value:g}" if value in (0, 1) else f" {value:.2f}"
            else:
                label = f"{step}: out "
                for bit in output > 0.5:
                    label += str(int(bit))
            steps.append(label)

        def build(weights: np.ndarray, name: str, verbs: tuple[str, str]) -> Lookups:
            return Lookups(
                weights[None, ..., : len(rows)],
                rows,
                tuple(steps),
                name,
                layers=("tape",),
                verbs=verbs,
            )

        reads = build(self.reading, "reads from the tape", ("reads", "is read"))
        writes = build(self.writing, "writes to the tape", ("writes", "is written"))
        return reads, writes
