"""The attention of one target sequence to one source sequence, as a matrix with labels."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False, repr=False)
class Alignment:
    """Attention weights of one sentence pair (Bahdanau, Cho, Bengio 2015, figure 3).

    weights: (T, S), finite and non-negative; row t holds the weights of target piece t. A row may be all zeros, and T
        or S may be 0. Stored as a read-only float64 copy.
    source, target: S and T labels.

    Raises ValueError for a wrong shape, a wrong number of labels, or a weight that is negative or not finite, and
    TypeError for a label that is not a string.
    """

    weights: np.ndarray
    source: tuple[str, ...]
    target: tuple[str, ...]

    def __repr__(self) -> str:
        return (
            f"<Alignment: {len(self.target)} target x {len(self.source)} source labels>"
        )

    def __post_init__(self) -> None:
        weights = np.array(self.weights, dtype=np.float64)
        source, target = _labels("source", self.source), _labels("target", self.target)
        if weights.shape != (len(target), len(source)):
            raise ValueError(
                f"weights of shape {weights.shape} do not fit {len(target)} target and {len(source)} source labels; "
                f"expected ({len(target)}, {len(source)})"
            )
        _check_values(weights)
        weights.setflags(write=False)
        for name, value in (
            ("weights", weights),
            ("source", source),
            ("target", target),
        ):
            object.__setattr__(self, name, value)


def _labels(side: str, labels: tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(labels, str):
        raise TypeError(
            f"{side} labels are one string; expected a sequence of strings, one per piece"
        )
    for label in labels:
        if not isinstance(label, str):
            raise TypeError(
                f"{side} label {label!r} is a {type(label).__name__}; expected str"
            )
    return tuple(labels)


def _check_values(weights: np.ndarray) -> None:
    bad = ~np.isfinite(weights) | (weights < 0)
    if bad.any():
        t, s = (int(index) for index in np.argwhere(bad)[0])
        raise ValueError(
            f"weight {weights[t, s]} at target {t}, source {s}; expected finite and not negative"
        )
