"""The records of lookups, for observers."""

from collections.abc import Callable, Sequence
from functools import partial

from torch import Tensor

from regard.attention.align import softmax
from regard.attention.fast import is_softmax_of_products, product_of
from regard.attention.lookup import Bias, Lookup, Read
from regard.attention.masks import Mask
from regard.attention.observer import LookupRecord, chosen_of
from regard.attention.scores.protocol import Product, Sides, TanhSum, unmodified
from regard.kernels.product import of_heads, part, shared_part, shares
from regard.shapes import Weights


def record_of(
    lookup: Lookup,
    read: Read,
    compute: Callable[..., Read],
    *,
    constant_keys: bool = True,
) -> LookupRecord:
    """The record of a lookup for an observer. Weights that a kernel did not compute are computed apart; keys and values
    that several heads share are repeated for each."""
    memory, each = lookup.memory, shares(lookup.query, lookup.memory.key)

    def scores() -> Sides | Tensor:
        sides = sides_of(lookup) if lookup.bias is None and constant_keys else None
        if sides is not None:
            return sides._replace(key=of_heads(sides.key, None, each))
        found = (
            read.scores
            if read.scores is not None
            else compute(lookup, weights=True).scores
        )
        assert found is not None
        return found

    def chosen(heads: Sequence[int] | None, rows: Sequence[int] | None) -> Weights:
        found = (
            compute(lookup, weights=True).weights
            if read.weights is None
            else read.weights
        )
        assert found is not None
        return chosen_of(found)(heads, rows)

    weights = chosen
    if read.weights is None and is_softmax_of_products(
        lookup
    ):  # only the chosen ones, of long inputs
        weights = partial(
            softmax_of_products, product_of(lookup), memory.mask, lookup.bias
        )
    value = of_heads(memory.value, None, each)
    return LookupRecord(
        lookup.query.shape[-2], weights, value, memory.mask, scores, read.draws
    )


def sides_of(lookup: Lookup) -> Sides | None:
    """The score's two sides; None for a score without sides or with a `forward` of its own."""
    plain = unmodified(lookup.score, Product) or unmodified(lookup.score, TanhSum)
    return lookup.score.sides(lookup.query, lookup.memory.key) if plain else None


def softmax_of_products(
    sides: Sides,
    mask: Mask | None,
    bias: Bias | None,
    heads: Sequence[int] | None,
    rows: Sequence[int] | None,
) -> Weights:
    """The weights of the chosen heads and queries (None: all)."""
    heads = heads if sides.query.ndim > 3 else None
    mask = mask if mask is None or rows is None else mask.of_queries(rows)
    allowed = None if mask is None else mask.dense()
    if allowed is not None:
        allowed = shared_part(allowed, heads, None)
    key = (
        sides.key
        if heads is None
        else of_heads(sides.key, heads, shares(sides.query, sides.key))
    )
    # The chosen queries have no name, so they are freed before the softmax, where a long read needs the most memory.
    if bias is None:
        return softmax(
            sides._replace(query=part(sides.query, heads, rows), key=key).scores(),
            allowed,
        )
    biased = sides._replace(
        query=part(sides.query, heads, rows), key=key
    ).scores() + bias(heads, rows)
    return softmax(biased, allowed)
