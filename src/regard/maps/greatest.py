"""The greatest weights of each query, as the rows of a table."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Float, Int

from regard.errors import InputError
from regard.maps.averages import chosen
from regard.maps.lookups import Lookups
from regard.maps.reductions import Greatest

COLUMNS = ("layer", "head", "query", "query_token", "key", "key_token", "weight")
"""The columns of `GreatestWeights.rows`."""


@dataclass(frozen=True, eq=False)
class GreatestWeights:
    """Some weights of each query in every layer and head, and their keys.

    weights: the greatest first, or all in the order of the keys.
    keys: their positions; below 0 where a query has fewer keys.
    source, target: the labels of all keys, and of the queries.
    first: the position of the first query.
    """

    weights: Float[np.ndarray, "layer head query count"]
    keys: Int[np.ndarray, "layer head query count"]
    source: tuple[str, ...]
    target: tuple[str, ...]
    first: int = 0

    @classmethod
    def of(cls, lookups: Lookups, count: int | None = None) -> "GreatestWeights":
        """Those of lookups, of signed ones by their magnitude; without a count all weights, in the order of the
        keys. Raises InputError for a count below 1."""
        weights = torch.tensor(lookups.weights)
        if count is None:
            keys = torch.arange(weights.shape[-1]).expand(weights.shape)
        else:
            found = greatest(count).of(weights.abs())
            assert found.places is not None
            keys, weights = found.places, weights.gather(-1, found.places)
        return cls(weights.numpy(), keys.numpy(), lookups.source, lookups.target)

    def rows(
        self, maps: Sequence[int] | None = None
    ) -> Iterator[tuple[int, int, int, str, int, str, float]]:
        """The values of `COLUMNS` of each weight but 0; of the maps with these numbers only, layer x heads + head.
        Queries and keys are positions from 0. Raises InputError for a number without a map."""
        layers, heads, queries, _ = self.weights.shape
        every = rearrange(
            self.weights, "layer head query count -> (layer head) query count"
        )
        numbers = range(layers * heads) if maps is None else maps
        for number, weights in zip(
            numbers, every if maps is None else chosen(every, maps), strict=True
        ):
            layer, head = divmod(number, heads)
            for query in range(queries):
                place, label = self.first + query, self.target[query]
                keys = self.keys[layer, head, query].tolist()
                for key, weight in zip(keys, weights[query].tolist(), strict=True):
                    if weight and key >= 0:
                        yield layer, head, place, label, key, self.source[key], weight


def greatest(count: int) -> Greatest:
    """What keeps so many weights of each query. Raises InputError for a count below 1."""
    if count < 1:
        raise InputError(
            f"{count} weights of each query are wanted; expected at least 1"
        )
    return Greatest(count)
