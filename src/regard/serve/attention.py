"""Weights as the page's view takes them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from regard.maps.lookups import Lookups, Patches
from regard.pictures.payload import payload

MOST = 1 << 14
"""Weights of one token; where layers, heads and keys are more, their mean over layers and heads is sent."""


@dataclass(frozen=True, eq=False)
class Source:
    """What is there to be read before a token is written: its labels, and the image that they are parts of."""

    labels: Sequence[str]
    patches: Patches | None = None


@dataclass(frozen=True)
class Rows:
    """The weights of an answer while it is written, a row a token: those of all layers and heads, or the `mean`."""

    mean: bool

    @classmethod
    def of(cls, first: Float[np.ndarray, "layer head key"], more: int) -> "Rows":
        """From the first row, and how many keys more there may be in the last."""
        layers, heads, keys = first.shape
        return cls(layers * heads * (keys + more) > MOST)

    def chosen(self, row: Float[np.ndarray, "layer head key"]) -> Float[np.ndarray, "layer_ head_ key"]:
        """What is sent of a row."""
        return row.mean((0, 1), keepdims=True) if self.mean else row

    def start(self, first: Float[np.ndarray, "layer head key"], source: Source) -> dict[str, Any]:
        """The view before there is a row, for `regard.mount`."""
        layers, heads, keys = self.chosen(first).shape
        names = ("mean",) if self.mean else ()
        nothing = np.zeros((layers, heads, 0, keys))
        return payload([Lookups(nothing, tuple(source.labels), (), layers=names, patches=source.patches)])

    def row(self, weights: Float[np.ndarray, "layer head key"]) -> list[Any]:
        """A row, for the view's `append`."""
        return np.round(self.chosen(weights), 5).tolist()
