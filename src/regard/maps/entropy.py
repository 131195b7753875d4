"""How evenly a head reads."""

import math

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.shapes import Weights


def logarithm(weights: Weights) -> Weights:
    """The natural one, that of a weight of 0 being finite."""
    return weights.clamp(min=1e-30 if weights.dtype.itemsize < 8 else 1e-300).log()


def row_entropy(weights: Weights) -> Float[Tensor, "*batch query"]:
    """-sum_i a_ti log a_ti of each query, in nats. A weight of 0 adds 0."""
    return -(weights * logarithm(weights)).sum(-1)


def bits(weights: Weights) -> Float[Tensor, "*batch query"]:
    """H_t = -sum_s p_ts log2 p_ts of each query, p being the weights as shares of their row's sum: 0 where one place is
    read, log2 S where all are read alike. NaN for a query that reads nothing, which has no entropy."""
    total = weights.sum(-1)
    reads = total > 0
    shares = weights / torch.where(reads, total, 1.0)[..., None]
    return torch.where(reads, row_entropy(shares) / math.log(2), torch.nan)


def entropies(weights: Float[np.ndarray, "... target source"]) -> Float[np.ndarray, "..."]:
    """The mean of `bits` over rows. A row that reads nothing is left out; NaN where no row reads (Ghader & Monz 2017,
    1710.03348, section 3.2, in bits)."""
    return torch.nanmean(bits(torch.tensor(weights)), -1).numpy()
