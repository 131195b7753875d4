"""The computation of attention weights: the scores before the mask, and the values."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float

from regard.maps.alignment import LayerMaps

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

    def scores(self) -> LayerMaps:
        """Compute the scores of all pairs."""
        if self.energy is None:
            products = self.query @ self.key.swapaxes(-1, -2)
            return products * self.scale
        energy = self.energy[..., None]
        scores = np.zeros(self.shape, self.key.dtype)
        # one query at a time: all sums of queries and keys together can be large
        for index in range(self.query.shape[2]):
            query = self.query[:, :, index, None]
            hidden = np.tanh(query + self.key)
            scores[:, :, index] = (hidden @ energy)[..., 0]
        return scores * self.scale

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays that determine the scores, by name."""
        arrays = {"query": self.query, "key": self.key}
        if self.energy is not None:
            arrays["energy"] = self.energy
        return arrays

    def select_rows(self, rows: slice) -> "ScoreFactors":
        """Select some queries."""
        return replace(self, query=self.query[:, :, rows])

    def pad_sources(self, count: int) -> "ScoreFactors":
        """Append keys of zeros."""
        return replace(self, key=_pad_sources(self.key, count))


@dataclass(frozen=True, eq=False)
class PlainScores:
    """Scores without their queries and keys."""

    plain: LayerMaps
    scale = 1.0

    @property
    def shape(self) -> tuple[int, ...]:
        """(layer, head, target, source), the shape of the weights."""
        return self.plain.shape

    def scores(self) -> LayerMaps:
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
        padding = ((0, 0), (0, 0), (0, 0), (0, count))
        return PlainScores(np.pad(self.plain, padding))


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
        arrays = self.of.arrays().values()
        return self.value.size + sum(array.size for array in arrays)

    def select_rows(self, rows: slice) -> "Breakdown":
        """Select some targets."""
        allowed = self.allowed
        if allowed is not None:
            allowed = allowed[rows]
        return replace(
            self,
            of=self.of.select_rows(rows),
            allowed=allowed,
        )

    def pad_sources(self, count: int) -> "Breakdown":
        """Append masked sources."""
        allowed = self.allowed
        if allowed is None:
            allowed = np.ones(self.of.shape[2:], bool)
        padding = ((0, 0), (0, count))
        return replace(
            self,
            of=self.of.pad_sources(count),
            value=_pad_sources(self.value, count),
            allowed=np.pad(allowed, padding),
        )


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
        expected = masked.softmax(-1).nan_to_num().numpy()
        difference = np.abs(expected - layer_weights)
        if difference.max(initial=0.0) >= ROUNDING:
            return False
    return True


def _pad_sources(side: np.ndarray, count: int) -> np.ndarray:
    return np.pad(side, [(0, 0), (0, 0), (0, count), (0, 0)])
