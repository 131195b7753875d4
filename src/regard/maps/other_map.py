"""Further maps beside the weights, and the checks of all maps."""

from dataclasses import dataclass

import numpy as np

Labels = tuple[str, ...]


@dataclass(frozen=True, eq=False, repr=False)
class OtherMap:
    """A map beside the weights of lookups, with its own layers and heads.

    weights: (layer, head, target, source), finite, of any sign. Stored as a read-only float32 copy.
    layers: a name for each layer. Default "layer 0" and so on.
    source, target: labels of its own; None for those of the lookups.
    amounts: whether the numbers have a unit, as norms do, and are not shares of a row.
    verbs: verbs from a target label to a source label, and back; None for those of the lookups.

    Raises ValueError for weights that are not finite or have other axes, and TypeError for labels that are one string.
    """

    weights: np.ndarray
    layers: Labels = ()
    source: Labels | None = None
    target: Labels | None = None
    amounts: bool = False
    verbs: tuple[str, str] | None = None

    def __repr__(self) -> str:
        layers, heads, targets, sources = self.weights.shape
        return f"<OtherMap: {layers} layers x {heads} heads, {targets} target x {sources} source labels>"

    def __post_init__(self) -> None:
        weights = frozen_weights("weights", self.weights)
        for name, value in (
            ("weights", weights),
            ("layers", names_of(weights, self.layers)),
        ):
            object.__setattr__(self, name, value)
        for side, own in (("source", self.source), ("target", self.target)):
            object.__setattr__(
                self, side, None if own is None else labels_of(side, own)
            )

    def labels(self, source: Labels, target: Labels) -> tuple[Labels, Labels]:
        """Its source and target labels, by default those of the lookups."""
        return (source if self.source is None else self.source), (
            target if self.target is None else self.target
        )


def frozen_weights(name: str, weights: np.ndarray) -> np.ndarray:
    """A read-only float32 copy. Raises ValueError unless it has four axes and is finite."""
    found = np.array(weights, dtype=np.float32)
    if found.ndim != 4:
        raise ValueError(
            f"{name} have shape {found.shape}; expected (layer, head, target, source)"
        )
    if not np.isfinite(found).all():
        raise ValueError(f"{name} are not all finite")
    found.setflags(write=False)
    return found


def names_of(weights: np.ndarray, layers: Labels) -> Labels:
    """The layers' names, by default their numbers."""
    return tuple(layers) or tuple(f"layer {number}" for number in range(len(weights)))


def labels_of(side: str, labels: Labels) -> Labels:
    """The labels as a tuple. Raises TypeError for one string."""
    if isinstance(labels, str):
        raise TypeError(
            f"{side} labels are one string; expected a sequence of strings, one per piece"
        )
    return tuple(labels)


def check_fit(
    name: str, weights: np.ndarray, layers: Labels, source: Labels, target: Labels
) -> None:
    """Raises ValueError if the weights' shape does not fit layers and labels, or if there is no layer or head."""
    if weights.shape[2:] != (len(target), len(source)) or len(layers) != len(weights):
        raise ValueError(
            f"{name} of shape {weights.shape} do not fit {len(layers)} layers, {len(target)} target and {len(source)} "
            "source labels; expected (layer, head, target, source)"
        )
    if not all(weights.shape[:2]):
        raise ValueError(
            f"{name} of shape {weights.shape} hold no layer or no head; expected at least 1 of each"
        )
