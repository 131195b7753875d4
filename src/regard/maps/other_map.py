"""A map beside the weights, and what every map of layers and heads is checked for."""

from dataclasses import dataclass

import numpy as np

Labels = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class OtherMap:
    """A map beside the weights of lookups, which has layers and heads of its own.

    weights: (layer, head, target, source), finite, of any sign. Stored as a read-only float32 copy.
    layers: a name for each. Default "layer 0" and so on.
    source, target: labels of its own; None: those of the lookups.
    amounts: whether these have a unit and a scale of their own, as norms have, and are no shares of a row.
    verbs: what a target label does to a source label, and what is done to that; None: as in the lookups.

    Raises ValueError for weights that are not finite or have other axes, and TypeError for labels that are one string.
    """

    weights: np.ndarray
    layers: Labels = ()
    source: Labels | None = None
    target: Labels | None = None
    amounts: bool = False
    verbs: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        weights = kept("weights", self.weights)
        for name, value in (("weights", weights), ("layers", names_of(weights, self.layers))):
            object.__setattr__(self, name, value)
        for side, own in (("source", self.source), ("target", self.target)):
            object.__setattr__(self, side, None if own is None else labels_of(side, own))

    def labels(self, source: Labels, target: Labels) -> tuple[Labels, Labels]:
        """Its source and target labels among lookups with these."""
        return (source if self.source is None else self.source), (target if self.target is None else self.target)


def kept(name: str, weights: np.ndarray) -> np.ndarray:
    """A read-only float32 copy. Raises ValueError for other than four axes, and what is not finite."""
    found = np.array(weights, dtype=np.float32)
    if found.ndim != 4:
        raise ValueError(f"{name} have shape {found.shape}; expected (layer, head, target, source)")
    if not np.isfinite(found).all():
        raise ValueError(f"{name} are not all finite")
    found.setflags(write=False)
    return found


def names_of(weights: np.ndarray, layers: Labels) -> Labels:
    """The layers' names, by default their numbers."""
    return tuple(layers) or tuple(f"layer {number}" for number in range(len(weights)))


def labels_of(side: str, labels: Labels) -> Labels:
    """Raises TypeError for one string."""
    if isinstance(labels, str):
        raise TypeError(f"{side} labels are one string; expected a sequence of strings, one per piece")
    return tuple(labels)


def check_fit(name: str, weights: np.ndarray, layers: Labels, source: Labels, target: Labels) -> None:
    """Raises ValueError for weights of another shape than the layers and labels have, or of no layer or head."""
    if weights.shape[2:] != (len(target), len(source)) or len(layers) != len(weights):
        raise ValueError(
            f"{name} of shape {weights.shape} do not fit {len(layers)} layers, {len(target)} target and {len(source)} "
            "source labels; expected (layer, head, target, source)"
        )
    if not all(weights.shape[:2]):
        raise ValueError(f"{name} of shape {weights.shape} hold no layer or no head; expected at least 1 of each")
