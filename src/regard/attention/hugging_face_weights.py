"""The weights behind PyTorch's fused attention in models of the transformers library."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.kernels.product import by_group, of_heads, part, shared_part, shares


def weights(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    mask: Tensor | None,
    heads: Sequence[int] | None,
    rows: Sequence[int] | None,
    options: dict[str, Any],
) -> Tensor:
    """softmax(scale q . k + bias) of the chosen heads and queries, under a mask that is True or 0 where a key may be
    read. Only the chosen rows of a causal mask are built."""
    queries, keys = query.shape[2], key.shape[2]
    key = key if heads is None else of_heads(key, heads, shares(query, key))
    scores = by_group(part(query, heads, rows), key.mT) * scale_of(query, options)
    if options.get("position_bias") is not None:
        scores = scores + shared_part(options["position_bias"], heads, rows)
    is_causal = options.get("is_causal")
    if (
        mask is None
        and queries > 1
        and (getattr(module, "is_causal", True) if is_causal is None else is_causal)
    ):
        places = torch.arange(queries, device=query.device)[
            slice(None) if rows is None else list(rows)
        ]
        allowed = torch.arange(keys, device=query.device) <= places[:, None]
        scores = scores.masked_fill(~allowed, -torch.inf)
    if mask is not None:
        mask = shared_part(mask, heads, rows)[..., :keys]
        scores = (
            scores.masked_fill(~mask, -torch.inf)
            if mask.dtype == torch.bool
            else scores + mask
        )
    return scores.float().softmax(-1).nan_to_num(0.0).to(query.dtype)


def scale_of(query: Tensor, options: dict[str, Any]) -> float:
    """The factor that multiplies the scores."""
    scaling = options.get("scaling")
    return query.shape[-1] ** -0.5 if scaling is None else float(scaling)
