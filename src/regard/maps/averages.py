"""Averages of maps, and amounts as shares of their row."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from regard.errors import InputError


def average_heads(
    weights: Float[np.ndarray, "... head target source"],
) -> Float[np.ndarray, "... target source"]:
    """Mean over heads. Rows that sum to 1 in every head sum to 1 in the mean. Raises ValueError if there is no head."""
    return _mean(weights, -3, "head")


def average_layers(
    weights: Float[np.ndarray, "layer ... target source"],
) -> Float[np.ndarray, "... target source"]:
    """Mean over layers. Rows that sum to 1 in every layer sum to 1 in the mean. Raises ValueError if there is no
    layer."""
    return _mean(weights, 0, "layer")


def average_of(
    weights: Float[np.ndarray, "map target source"], maps: Sequence[int] | None
) -> Float[np.ndarray, "target source"]:
    """Mean of the maps with these numbers, by default of all. Raises InputError for a number without a map."""
    return average_heads(weights if maps is None else chosen(weights, maps))


def chosen(
    weights: Float[np.ndarray, "map target source"], maps: Sequence[int]
) -> Float[np.ndarray, "some target source"]:
    """The maps with these numbers. Raises InputError for a number without a map."""
    for number in maps:
        if not 0 <= number < len(weights):
            raise InputError(
                f"map {number} is not there; the model has {len(weights)}, from 0 to {len(weights) - 1}"
            )
    return weights[list(maps)]


def _mean(weights: np.ndarray, axis: int, name: str) -> np.ndarray:
    if weights.ndim < 3:
        raise ValueError(
            f"weights of shape {weights.shape} have no {name} axis; expected at least 3 dimensions"
        )
    if weights.shape[axis] == 0:
        raise ValueError(
            f"weights of shape {weights.shape} hold no {name} to average; expected at least 1"
        )
    return weights.mean(axis=axis)


def shares(amounts: Float[np.ndarray, "... source"]) -> Float[np.ndarray, "... source"]:
    """Absolute values divided by the sum of their row. A row of zeros stays zero."""
    sizes = np.abs(amounts)
    total = sizes.sum(-1, keepdims=True)
    return np.divide(sizes, total, out=np.zeros_like(sizes), where=total > 0)


def in_shares_of_mean(
    amounts: Float[np.ndarray, "layer head target source"],
) -> Float[np.ndarray, "layer head target source"]:
    """Amounts divided, in each row, by the row's sum in the mean of all layers and heads. A row of zeros stays zero."""
    mean = amounts.sum(-1, keepdims=True).mean((0, 1), keepdims=True)
    return np.divide(amounts, mean, out=np.zeros_like(amounts), where=mean > 0)
