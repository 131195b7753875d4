"""The computation of attention weights: the scores before the mask, and the values."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

ROUNDING = 1e-3
"""Tolerance between weights and the softmax of their scores."""


@dataclass(frozen=True, eq=False)
class ScoreFactors:
    """Scores as sums over the width of queries and keys.

    A score is scale * sum_i q_i k_i, or with an energy v scale * sum_i v_i tanh(q_i +
    k_i).
    """

    query: Float[np.ndarray, "layer head target width"]
    key: Float[np.ndarray, "layer head source width"]
    scale: float = 1.0
    energy: Float[np.ndarray, "layer head width"] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """(layer, head, target, source), the shape of the weights."""
        return (*self.query.shape[:3], self.key.shape[2])

    def scores(self) -> Float[np.ndarray, "layer head target source"]:
        """Compute the scores of all pairs."""
        if self.energy is None:
            return self.query @ self.key.swapaxes(-1, -2) * self.scale
        scores = np.zeros(self.shape, self.key.dtype)
        # one query at a time: all sums of queries and keys together can be large
        for index in range(self.query.shape[2]):
            hidden = np.tanh(self.query[:, :, index, None] + self.key)
            scores[:, :, index] = (hidden @ self.energy[..., None])[..., 0]
        return scores * self.scale

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays that determine the scores, by name."""
        arrays = {"query": self.query, "key": self.key}
        return arrays if self.energy is None else arrays | {"energy": self.energy}

    def select_rows(self, rows: slice) -> "ScoreFactors":
        """Select some queries."""
        return replace(self, query=self.query[:, :, rows])

    def pad_sources(self, count: int) -> "ScoreFactors":
        """Append keys of zeros."""
        return replace(self, key=_pad_sources(self.key, count))


@dataclass(frozen=True, eq=False)
class PlainScores:
    """Scores without their queries and keys."""

    plain: Float[np.ndarray, "layer head target source"]
    scale = 1.0

    @property
    def shape(self) -> tuple[int, ...]:
        """(layer, head, target, source), the shape of the weights."""
        return self.plain.shape

    def scores(self) -> Float[np.ndarray, "layer head target source"]:
        """Return the scores of all pairs."""
        return self.plain

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the scores by name."""
        return {"plain": self.plain}

    def select_rows(self, rows: slice) -> "PlainScores":
        """Select some queries."""
        return PlainScores(self.plain[:, :, rows])

    def pad_sources(self, count: int) -> "PlainScores":
        """Append keys with scores of zero."""
        return PlainScores(np.pad(self.plain, [(0, 0)] * 3 + [(0, count)]))


@dataclass(frozen=True, eq=False)
class Breakdown:
    """The scores and values behind the weights of lookups.

    Attributes:
        of: The scores before the mask.
        value: The values.
        allowed: True where a query may attend to a key; None for everywhere.
        softmax: Whether the weights are the softmax of the allowed scores.
    """

    of: ScoreFactors | PlainScores
    value: Float[np.ndarray, "layer head source value_width"]
    allowed: Bool[np.ndarray, "target source"] | None = None
    softmax: bool = True

    @property
    def size(self) -> int:
        """The number of numbers."""
        return self.value.size + sum(array.size for array in self.of.arrays().values())

    def select_rows(self, rows: slice) -> "Breakdown":
        """Select some targets."""
        allowed = None if self.allowed is None else self.allowed[rows]
        return replace(self, of=self.of.select_rows(rows), allowed=allowed)

    def pad_sources(self, count: int) -> "Breakdown":
        """Append masked sources."""
        allowed = self.allowed
        if allowed is None:
            allowed = np.ones(self.of.shape[2:], bool)
        return replace(
            self,
            of=self.of.pad_sources(count),
            value=_pad_sources(self.value, count),
            allowed=np.pad(allowed, [(0, 0), (0, count)]),
        )


def is_softmax(
    scores: Float[np.ndarray, "layer head target source"],
    allowed: Bool[np.ndarray, "target source"],
    weights: Float[np.ndarray, "layer head target source"],
) -> bool:
    """Check whether the weights are the softmax of the allowed scores.

    A query without an allowed key has weights 0.
    """
    # one layer at a time: all layers together can be large
    for layer_scores, layer_weights in zip(scores, weights, strict=True):
        difference = np.abs(_softmax(layer_scores, allowed) - layer_weights)
        if difference.max(initial=0.0) >= ROUNDING:
            return False
    return True


def _softmax(scores: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    scores = np.where(allowed, scores, -np.inf)
    maximum = scores.max(-1, keepdims=True, initial=-np.inf)
    shares = np.exp(scores - np.where(np.isfinite(maximum), maximum, 0.0))
    total = shares.sum(-1, keepdims=True)
    return shares / np.where(total > 0, total, 1.0)


def _pad_sources(side: np.ndarray, count: int) -> np.ndarray:
    return np.pad(side, [(0, 0), (0, 0), (0, count), (0, 0)])


def build_product_breakdown(
    factors: ScoreFactors,
    value: Float[np.ndarray, "layer head source value_width"],
    weights: Float[np.ndarray, "_layer _head _target _source"],
) -> Breakdown | None:
    """Build the breakdown of weights whose mask was not recorded.

    A key is allowed if any head attends to it. The result is None if the weights are
    not the softmax of the scores, as with another score or alignment.
    """
    if factors.shape != weights.shape:
        return None
    allowed = np.any(weights > 0, axis=(0, 1))
    if not is_softmax(factors.scores(), allowed, weights):
        return None
    return Breakdown(factors, value, allowed)
