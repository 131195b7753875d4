"""The entropy of attention weights."""

import math

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.shapes import Weights, wide


def logarithm(weights: Weights) -> Weights:
    """Natural logarithm in float32 or wider, finite at 0."""
    weights = wide(weights)
    return weights.clamp(min=1e-30 if weights.dtype.itemsize < 8 else 1e-300).log()


def row_entropy(weights: Weights) -> Float[Tensor, "*batch query"]:
    """-sum_i a_ti log a_ti of each query, in nats. A weight of 0 adds 0."""
    return -(weights * logarithm(weights)).sum(-1).to(weights.dtype)


def bits(weights: Weights) -> Float[Tensor, "*batch query"]:
    """H_t = -sum_s p_ts log2 p_ts of each query, where p are the weights divided by their row's sum: 0 for a single
    key, log2 S for S equal weights. NaN for a query with no weight."""
    total = weights.sum(-1)
    reads = total > 0
    shares = weights / torch.where(reads, total, 1.0)[..., None]
    return torch.where(reads, row_entropy(shares) / math.log(2), torch.nan)


def entropies(
    weights: Float[np.ndarray, "... target source"],
) -> Float[np.ndarray, "..."]:
    """The mean of `bits` over rows (Ghader & Monz 2017, 1710.03348, section 3.2, in bits). Rows without weight are left
    out; NaN if no row has weight."""
    return torch.nanmean(bits(torch.tensor(weights)), -1).numpy()
