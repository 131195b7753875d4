"""Attention of one sequence to another in every layer and head, and further maps."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, UInt8

from regard.maps.alignment import (
    Alignment,
    DocumentWeights,
    Indices,
    Labels,
    LayerMaps,
    TextWeights,
    Weighted,
    Words,
    freeze,
    set_fields,
)
from regard.maps.reductions import Numbers, average_maps, shares

ROUNDING = 1e-3
"""Tolerance between weights and the softmax of their scores."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Breakdown:
    """The scores and values behind the weights of lookups.

    A score is scale * sum_i q_i k_i, or with an energy v scale * sum_i v_i tanh(q_i +
    k_i). Scores without queries and keys are `plain`.

    Attributes:
        value: The values, (layer, head, source, value width).
        query: The queries, (layer, head, target, width).
        key: The keys, (layer, head, source, width).
        energy: The vector v of additive scores, (layer, head, width).
        scale: The factor of the sums.
        plain: The scores, before the mask.
        allowed: True where a query may attend to a key, (target, source); None for
            everywhere.
        softmax: Whether the weights are the softmax of the allowed scores.
    """

    value: np.ndarray
    query: np.ndarray | None = None
    key: np.ndarray | None = None
    energy: np.ndarray | None = None
    scale: float = 1.0
    plain: LayerMaps | None = None
    allowed: np.ndarray | None = None
    softmax: bool = True

    def scores(self) -> LayerMaps:
        """Compute the scores of all pairs."""
        if self.query is None or self.key is None:
            assert self.plain is not None
            return self.plain
        if self.energy is None:
            return self.query @ self.key.swapaxes(-1, -2) * self.scale
        energy = self.energy[..., None]
        shape = (*self.query.shape[:3], self.key.shape[2])
        scores = np.zeros(shape, self.key.dtype)
        # one query at a time: all sums of queries and keys together can be large
        for index in range(shape[2]):
            hidden = np.tanh(self.query[:, :, index, None] + self.key)
            scores[:, :, index] = (hidden @ energy)[..., 0]
        return scores * self.scale

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the values, and the arrays that determine the scores, by name."""
        names = ("query", "key", "energy", "plain", "value")
        arrays = {name: getattr(self, name) for name in names}
        return {name: item for name, item in arrays.items() if item is not None}

    @property
    def size(self) -> int:
        """The number of numbers."""
        return sum(array.size for array in self.arrays().values())

    def select_rows(self, rows: slice) -> "Breakdown":
        """Select some targets."""
        arrays = self.arrays()
        changes: dict[str, Any] = {}
        for name in arrays.keys() & {"query", "plain"}:
            changes[name] = arrays[name][:, :, rows]
        if self.allowed is not None:
            changes["allowed"] = self.allowed[rows]
        return replace(self, **changes)

    def pad_sources(self, count: int) -> "Breakdown":
        """Append masked sources, with keys and values of zeros."""
        arrays = self.arrays()
        widths = {name: [(0, 0)] * 4 for name in arrays.keys() - {"query", "energy"}}
        for name, padding in widths.items():
            padding[3 if name == "plain" else 2] = (0, count)
        changes: Any = {name: np.pad(arrays[name], widths[name]) for name in widths}
        allowed = self.allowed
        if allowed is None:
            allowed = np.ones(self.scores().shape[2:], bool)
        return replace(self, **changes, allowed=np.pad(allowed, ((0, 0), (0, count))))


def is_softmax(
    scores: LayerMaps,
    allowed: Bool[np.ndarray, "target source"],
    weights: LayerMaps,
) -> bool:
    """Check whether the weights are the softmax of the allowed scores.

    A query without an allowed key has weights 0.
    """
    hidden = ~torch.tensor(allowed)
    # one layer at a time: all layers together can be large
    for layer_scores, layer_weights in zip(scores, weights, strict=True):
        masked = torch.tensor(layer_scores).masked_fill(hidden, -torch.inf)
        difference = np.abs(masked.softmax(-1).nan_to_num().numpy() - layer_weights)
        if difference.max(initial=0.0) >= ROUNDING:
            return False
    return True


Verbs = tuple[str, str]
ATTENDS_TO = ("attends to", "is attended to")
"""The default verbs of a lookup, from target to source and back."""
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
class AlternativeMap(Weighted):
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
    verbs: Verbs | None = None

    def __post_init__(self) -> None:
        weights = freeze(
            "weights",
            self.weights,
            AXES,
            np.float32,
            signed=True,
        )
        set_fields(self, weights=weights, layers=name_layers(weights, self.layers))


def name_layers(weights: np.ndarray, layers: Labels) -> Labels:
    """Return the layers' names, by default their numbers."""
    return tuple(layers) or tuple(f"layer {number}" for number in range(len(weights)))


@dataclass(frozen=True, eq=False)
class ImagePatches:
    """An image cut into patches, which are source labels, row by row, from `first`."""

    pixels: UInt8[np.ndarray, "height width channel"]
    rows: int
    columns: int
    first: int = 0


@dataclass(frozen=True, eq=False)
class SoundParts:
    """A sound whose parts are source labels: a WAV file, and the seconds of a label."""

    content: bytes
    seconds: float


@dataclass(frozen=True, eq=False, repr=False)
class Lookups(Weighted):
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
        recording: The sound whose parts are source labels.
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
    """

    weights: np.ndarray
    source: Labels
    target: Labels
    name: str = ""
    layers: Labels = ()
    alternatives: Mapping[str, AlternativeMap] = field(default_factory=dict)
    source_words: Words | None = None
    target_words: Words | None = None
    sentences: Indices | None = None
    notes: Labels = ()
    patches: ImagePatches | None = None
    images: UInt8[np.ndarray, "source height width channel"] | None = None
    recording: SoundParts | None = None
    breakdown: Breakdown | None = None
    verbs: Verbs = ATTENDS_TO
    kind: str = "weights"
    amounts: bool = False
    signed: bool = False
    first: str | None = None

    def __post_init__(self) -> None:
        source, target = tuple(self.source), tuple(self.target)
        shape = (*AXES[:2], len(target), len(source))
        weights = freeze(
            "weights",
            self.weights,
            shape,
            np.float32,
            signed=self.signed,
        )
        layers = name_layers(weights, self.layers)
        set_fields(
            self,
            weights=weights,
            layers=layers,
            source=source,
            target=target,
        )
        for name, item in {"weights": self, **self.alternatives}.items():
            labels = item.layers, item.target or target, item.source or source
            layers, heads, targets, sources = item.weights.shape
            counts = tuple(map(len, labels))
            if counts != (layers, targets, sources) or not layers * heads:
                raise ValueError(
                    f"{name} of shape {item.weights.shape} do not fit {counts[0]} "
                    f"layers, {counts[1]} target and {counts[2]} source labels, or hold "
                    "no layer or no head"
                )
        counts = {
            "source_words": (self.source_words and self.source_words.indices, source),
            "target_words": (self.target_words and self.target_words.indices, target),
            "sentences": (self.sentences, source),
            "notes": (self.notes or None, target),
            "images": (self.images, source),
        }
        for name, (values, labels) in counts.items():
            if values is not None and len(values) != len(labels):
                raise ValueError(
                    f"{len(values)} {name} for {len(labels)} labels; expected one each"
                )


def mean_alignment(lookups: Lookups, maps: Numbers = None) -> Alignment:
    """Average the magnitudes of all maps, or of those with these numbers.

    A number is layer x heads + head.

    Raises:
        InputError: There is no map of a number.
    """
    weights = np.abs(lookups.weights).astype(np.float64)
    layers, heads, *sides = weights.shape
    mean = average_maps(weights.reshape(layers * heads, *sides), maps)
    return Alignment(mean, lookups.source, lookups.target)


def with_maps(lookups: Lookups, *kinds: Lookups) -> Lookups:
    """Add the maps of other lookups of the same sequences, each by its kind.

    Maps with different labels keep theirs.
    """
    maps = dict(lookups.alternatives)
    for item in kinds:
        main = AlternativeMap(item.weights, item.layers, amounts=item.amounts)
        for name, extra in {item.kind: main, **item.alternatives}.items():
            if name != lookups.kind:
                changes = {}
                for key in ("source", "target", "verbs"):
                    value = getattr(extra, key) or getattr(item, key)
                    changes[key] = None if value == getattr(lookups, key) else value
                maps[name] = replace(extra, **changes)
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
    return replace(
        lookups,
        weights=lookups.weights[:, :, rows],
        alternatives=alternatives,
        target=target,
        target_words=words,
        notes=lookups.notes[rows],
        breakdown=lookups.breakdown and lookups.breakdown.select_rows(rows),
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
    source: Labels = ()
    sentences: Indices = ()
    for index, labels in enumerate(document.sentences):
        weights.append(document.weights[index] * document.words[index])
        source += labels
        sentences += (index,) * len(labels)
    rows, layers = np.concatenate(weights)[None, None, None], ("weights",)
    return Lookups(
        rows,
        source,
        (label,),
        layers=layers,
        sentences=sentences,
    )


def find_sinks(weights: Float[np.ndarray, "*_map target source"]) -> dict[int, float]:
    """Find attention sinks, and the mean weight of each over all maps.

    A sink is a key that takes much of the weight of nearly every query, whatever it is
    (Xiao et al. 2024, 2309.17453). Only queries that attend to several keys count.
    """
    maps = weights.reshape(-1, *weights.shape[-2:])
    sources = maps.shape[-1]
    has_choice = (maps > 0).any(0).sum(-1) > 1
    if sources <= FEW_KEYS or not has_choice.any():
        return {}
    means = maps[:, has_choice].mean(1)
    least = max(SINK_WEIGHT, SINK_MULTIPLE / sources)
    sinks = np.flatnonzero((means >= least).mean(0) >= SINK_HEADS)
    return {int(key): float(means[:, key].mean()) for key in sinks}


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
    # the weights of the other keys as shares
    remaining = lookups.weights.copy()
    remaining[..., list(sinks)] = 0.0
    extra = AlternativeMap(shares(remaining), lookups.layers)
    alternatives = {"without sinks": extra, **lookups.alternatives}
    return replace(
        lookups,
        source=source,
        target=target,
        alternatives=alternatives,
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
        used = np.flatnonzero((weights >= MIN_TAPE_WEIGHT).any((0, 1)))
        return int(used[-1]) + 1 if len(used) else min(1, weights.shape[-1])

    def lookups(self) -> tuple[Lookups, Lookups]:
        """Return the reads and the writes of every head on the rows in use.

        A step's label is its input, or its output bits where an output is expected.
        Marks in the input have their own channels, and counts are no bits.
        """
        rows = tuple(f"row {row}" for row in range(self.rows))
        steps = []
        for step, output in enumerate(self.outputs):
            label = f"{step}: out " + "".join(map(str, (output > 0.5).astype(int)))
            if np.isnan(output).any():
                label = f"{step}: in "
                for value in self.inputs[step]:
                    label += f"{value:g}" if value in (0, 1) else f" {value:.2f}"
            steps.append(label)
        reads = Lookups(
            self.reading[None, ..., : len(rows)],
            rows,
            tuple(steps),
            "reads from the tape",
            layers=("tape",),
            verbs=("reads", "is read"),
        )
        writes = replace(
            reads,
            weights=self.writing[None, ..., : len(rows)],
            name="writes to the tape",
            verbs=("writes", "is written"),
        )
        return reads, writes
