"""Several maps of the same lookup, averaged to one."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from regard.errors import InputError


def average_heads(weights: Float[np.ndarray, "... head target source"]) -> Float[np.ndarray, "... target source"]:
    """Mean over heads. Rows that sum to 1 in every head still do. Raises ValueError without a head to average."""
    return _mean(weights, -3, "head")


def average_layers(weights: Float[np.ndarray, "layer ... target source"]) -> Float[np.ndarray, "... target source"]:
    """Mean over layers. Rows that sum to 1 in every layer still do. Raises ValueError without a layer to average."""
    return _mean(weights, 0, "layer")


def average_of(
    weights: Float[np.ndarray, "map target source"], maps: Sequence[int] | None
) -> Float[np.ndarray, "target source"]:
    """Mean of the maps of those numbers, by default of all. Raises InputError for a number that no map has."""
    return average_heads(weights if maps is None else chosen(weights, maps))


def chosen(
    weights: Float[np.ndarray, "map target source"], maps: Sequence[int]
) -> Float[np.ndarray, "some target source"]:
    """The maps of those numbers. Raises InputError for a number that no map has."""
    for number in maps:
        if not 0 <= number < len(weights):
            raise InputError(f"map {number} is not there; the model has {len(weights)}, from 0 to {len(weights) - 1}")
    return weights[list(maps)]


def _mean(weights: np.ndarray, axis: int, name: str) -> np.ndarray:
    if weights.ndim < 3:
        raise ValueError(f"weights of shape {weights.shape} have no {name} axis; expected at least 3 dimensions")
    if weights.shape[axis] == 0:
        raise ValueError(f"weights of shape {weights.shape} hold no {name} to average; expected at least 1")
    return weights.mean(axis=axis)
