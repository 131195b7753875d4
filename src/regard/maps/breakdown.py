"""The breakdown of attention weights: the scores before the mask, and the values."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

ROUNDING = 1e-3
"""Tolerance between weights and the softmax of their scores."""


@dataclass(frozen=True, eq=False)
class Sums:
    """Scores as sums over the width of two sides: scale * sum_i q_i k_i, or with an energy v scale * sum_i v_i tanh(q_i
    + k_i).

    query: (layer, head, target, width).
    key: (layer, head, source, width).
    energy: (layer, head, width).
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
        """The scores of all pairs."""
        if self.energy is None:
            return self.query @ self.key.swapaxes(-1, -2) * self.scale
        rows = [
            np.tanh(row[:, :, None] + self.key) @ self.energy[..., None]
            for row in np.moveaxis(self.query, 2, 0)
        ]
        nothing = np.zeros((*self.key.shape[:3], 0), self.key.dtype)
        return np.concatenate([nothing, *rows], -1).swapaxes(-1, -2) * self.scale

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays that determine the scores, by name."""
        sides = {"query": self.query, "key": self.key}
        return sides if self.energy is None else {**sides, "energy": self.energy}

    def of_rows(self, rows: slice) -> "Sums":
        return replace(self, query=self.query[:, :, rows])

    def with_more(self, sources: int) -> "Sums":
        return replace(self, key=_with_more(self.key, sources))


@dataclass(frozen=True, eq=False)
class PlainScores:
    """Scores without their queries and keys: (layer, head, target, source)."""

    plain: Float[np.ndarray, "layer head target source"]
    scale = 1.0

    @property
    def shape(self) -> tuple[int, ...]:
        """(layer, head, target, source), the shape of the weights."""
        return self.plain.shape

    def scores(self) -> Float[np.ndarray, "layer head target source"]:
        """The scores of all pairs."""
        return self.plain

    def arrays(self) -> dict[str, np.ndarray]:
        """The scores by name."""
        return {"plain": self.plain}

    def of_rows(self, rows: slice) -> "PlainScores":
        return PlainScores(self.plain[:, :, rows])

    def with_more(self, sources: int) -> "PlainScores":
        return PlainScores(np.pad(self.plain, [(0, 0)] * 3 + [(0, sources)]))


@dataclass(frozen=True, eq=False)
class Breakdown:
    """The scores and values behind the weights of lookups.

    of: the scores before the mask.
    value: (layer, head, source, value_width).
    allowed: (target, source), True where a query may read a key; None for everywhere.
    softmax: whether the weights are the softmax of the allowed scores.
    """

    of: Sums | PlainScores
    value: Float[np.ndarray, "layer head source value_width"]
    allowed: Bool[np.ndarray, "target source"] | None = None
    softmax: bool = True

    @property
    def size(self) -> int:
        """The number of numbers."""
        return self.value.size + sum(each.size for each in self.of.arrays().values())

    def of_rows(self, rows: slice) -> "Breakdown":
        """The breakdown of some targets."""
        return replace(
            self,
            of=self.of.of_rows(rows),
            allowed=None if self.allowed is None else self.allowed[rows],
        )

    def with_more(self, sources: int) -> "Breakdown":
        """The breakdown with `sources` more sources at the end, which are masked."""
        allowed = (
            np.ones(self.of.shape[2:], bool) if self.allowed is None else self.allowed
        )
        allowed, value = (
            np.pad(allowed, [(0, 0), (0, sources)]),
            _with_more(self.value, sources),
        )
        return replace(
            self, of=self.of.with_more(sources), value=value, allowed=allowed
        )


def is_softmax(
    scores: Float[np.ndarray, "layer head target source"],
    allowed: Bool[np.ndarray, "target source"],
    weights: Float[np.ndarray, "layer head target source"],
) -> bool:
    """Whether the weights are the softmax of the allowed scores; a query without an allowed key has weights 0."""
    layers = zip(
        scores, weights, strict=True
    )  # one layer at a time: all layers together can be large
    return all(
        np.abs(_softmax(own, allowed) - found).max(initial=0.0) < ROUNDING
        for own, found in layers
    )


def _softmax(scores: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    scores = np.where(allowed, scores, -np.inf)
    greatest = scores.max(-1, keepdims=True, initial=-np.inf)
    shares = np.exp(scores - np.where(np.isfinite(greatest), greatest, 0.0))
    total = shares.sum(-1, keepdims=True)
    return shares / np.where(total > 0, total, 1.0)


def _with_more(side: np.ndarray, sources: int) -> np.ndarray:
    return np.pad(side, [(0, 0), (0, 0), (0, sources), (0, 0)])


def breakdown_of_products(
    sums: Sums,
    value: Float[np.ndarray, "layer head source value_width"],
    weights: Float[np.ndarray, "_layer _head _target _source"],
) -> Breakdown | None:
    """The breakdown of weights whose mask was not recorded: a key is allowed if any head reads it.

    None if the weights are not softmax(scores), as with another score or alignment."""
    if sums.shape != weights.shape:
        return None
    allowed = np.any(weights > 0, axis=(0, 1))
    return (
        Breakdown(sums, value, allowed)
        if is_softmax(sums.scores(), allowed, weights)
        else None
    )
