"""Attention sinks: keys that take much of the weight of nearly every query, whatever it reads (Xiao et al. 2024,
2309.17453)."""

from dataclasses import replace

import numpy as np
from jaxtyping import Float

from regard.maps.lookups import Lookups
from regard.maps.other_map import OtherMap

LEAST, EVEN = 0.3, 3.0
"""The mean weight over queries from which a key is the sink of a head (Gu 2025, 2410.10781, section 3.1), which is also
at least so many even shares."""
HEADS = 1 / 3
"""The share of the heads of which a sink is one: first layers, and heads that read neighbours, often have none."""
FEW = 4
"""The number of keys up to which a text has no sink: each takes much of the weight."""


def sinks(weights: Float[np.ndarray, "*_map target source"]) -> dict[int, float]:
    """The sinks of maps, and the mean weight of each over all maps and the queries that read at least two keys."""
    maps = weights.reshape(-1, *weights.shape[-2:])
    if maps.shape[-1] <= FEW:
        return {}
    choose = (maps > 0).any(0).sum(-1) > 1
    if not choose.any():
        return {}
    means = maps[:, choose].mean(1)
    share = (means >= max(LEAST, EVEN / maps.shape[-1])).mean(0)
    return {
        int(key): float(means[:, key].mean()) for key in np.flatnonzero(share >= HEADS)
    }


def without(
    weights: Float[np.ndarray, "*map target source"], keys: dict[int, float]
) -> Float[np.ndarray, "*map target source"]:
    """The weights of the other keys, as shares of their sum; a row without one is zeros."""
    rest = weights.copy()
    rest[..., list(keys)] = 0.0
    total = rest.sum(-1, keepdims=True)
    return np.divide(rest, total, out=np.zeros_like(rest), where=total > 0)


def separated(lookups: Lookups) -> Lookups:
    """Lookups with the mean weight of each sink in its label, and a further map of the other keys' weights, as shares;
    unchanged without a sink."""
    found = sinks(lookups.weights)
    if not found:
        return lookups
    labels = tuple(
        f"{piece} (sink, {100 * found[place]:.0f} %)" if place in found else piece
        for place, piece in enumerate(lookups.source)
    )
    target = labels if lookups.target == lookups.source else lookups.target
    rest = OtherMap(without(lookups.weights, found), lookups.layers)
    return replace(
        lookups,
        source=labels,
        target=target,
        others={"without sinks": rest, **lookups.others},
    )
