"""Amounts of any sign and unit, as the shares of their row."""

import numpy as np
from jaxtyping import Float


def shares(amounts: Float[np.ndarray, "... source"]) -> Float[np.ndarray, "... source"]:
    """How large each is beside the others of its row: absolute values, each row divided by its sum. A row of zeros
    stays one."""
    sizes = np.abs(amounts)
    total = sizes.sum(-1, keepdims=True)
    return np.divide(sizes, total, out=np.zeros_like(sizes), where=total > 0)
