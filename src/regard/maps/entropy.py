"""How evenly a head reads."""

import numpy as np
from jaxtyping import Float


def entropies(weights: Float[np.ndarray, "... target source"]) -> Float[np.ndarray, "..."]:
    """In bits, the mean over rows of H_t = -sum_s p_ts log2 p_ts, p being the weights as shares of their row's sum: 0
    where every row reads one place, log2 S where all are read alike. A row that reads nothing, which has no entropy, is
    left out; NaN where no row reads (Ghader & Monz 2017, 1710.03348, section 3.2, in bits)."""
    total = weights.sum(-1)
    reads = total > 0
    shares = weights / np.where(reads, total, 1.0)[..., None]
    rows = -(shares * np.log2(np.where(shares > 0, shares, 1.0))).sum(-1)
    counts = reads.sum(-1)
    return np.where(counts > 0, rows.sum(-1) / np.maximum(counts, 1), np.nan)
