"""How evenly each head reads, as numbers in a grid of layers and heads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from regard.pictures.chart import Grid, charts

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def entropy(bits: Sequence[Float[np.ndarray, " head"]], read: int) -> Figure:
    """A figure with a row a layer and a cell a head: `regard.maps.entropy.entropies`, in bits, on a scale from 0, where
    one piece is read, to log2 of the `read` pieces, where all are read alike, which the title says; a dash where a head
    reads nothing. Raises InputError without matplotlib, ValueError for no layer."""
    most = math.log2(max(read, 2))
    rows = {f"layer {number}": each.tolist() for number, each in enumerate(bits)}
    return charts([Grid(f"entropy of each head, 0 to {most:.2f} bits", "head", rows, most)])
