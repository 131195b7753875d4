"""Attention rollout over layers, and the weights of an image's patches."""

from collections.abc import Collection

import numpy as np
from jaxtyping import Float

from regard.maps.averages import average_heads, shares


def rollout(
    weights: Collection[Float[np.ndarray, "_head position position"]],
) -> Float[np.ndarray, "position position"]:
    """The share of each input position in each last state: the product over the layers of half the weights, averaged
    over heads, and half the identity for the residual (Abnar 2020, 2005.00928, section 3).

    Rows that sum to 1 in every layer sum to 1 in the result. Layers are in order and may have different numbers of
    heads. Raises ValueError if there is no layer or head.
    """
    layers = [average_heads(layer) for layer in weights]
    if not layers:
        raise ValueError("weights hold no layer; expected at least 1")
    identity = np.eye(len(layers[0]))
    rolled = identity
    for layer in layers:
        rolled = (layer + identity) / 2 @ rolled
    return rolled


def of_patches(
    weights: Float[np.ndarray, " position"], rows: int, columns: int
) -> Float[np.ndarray, "rows columns"]:
    """The weights of an image's patches, which are the last positions, row by row; divided by their sum unless it is 0.
    Raises ValueError for fewer positions than patches."""
    if len(weights) < rows * columns:
        raise ValueError(f"{len(weights)} positions hold no {rows} x {columns} patches")
    return shares(weights[len(weights) - rows * columns :]).reshape(rows, columns)
