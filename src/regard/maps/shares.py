"""Amounts of any sign and unit, as shares of their row."""

import numpy as np
from jaxtyping import Float


def shares(amounts: Float[np.ndarray, "... source"]) -> Float[np.ndarray, "... source"]:
    """How large each is beside the others of its row: absolute values, each row divided by its sum. A row of zeros
    stays one."""
    sizes = np.abs(amounts)
    total = sizes.sum(-1, keepdims=True)
    return np.divide(sizes, total, out=np.zeros_like(sizes), where=total > 0)


def in_shares_of_mean(
    amounts: Float[np.ndarray, "layer head target source"],
) -> Float[np.ndarray, "layer head target source"]:
    """Amounts in the unit in which each row's sum is 1 in the mean of all layers and heads. A row of zeros stays
    one."""
    mean = amounts.sum(-1, keepdims=True).mean((0, 1), keepdims=True)
    return np.divide(amounts, mean, out=np.zeros_like(amounts), where=mean > 0)
