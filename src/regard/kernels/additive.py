"""Additive scores."""

from torch import Tensor


def additive(query: Tensor, key: Tensor, energy: Tensor) -> Tensor:
    """e_ti = energy . tanh(query_t + key_i), in its plain form, which stores query x key x width numbers.

    `(*batch, query, width)`, `(*batch, key, width)` and `energy`, broadcastable to `(*batch, 1, width)` ->
    `(*batch, query, key)`.
    """
    hidden = (query[..., :, None, :] + key[..., None, :, :]).tanh()
    return (hidden @ energy[..., None, :, None] if energy.ndim > 1 else hidden @ energy[:, None]).squeeze(-1)
