"""The records of lookups, for observers."""

from collections.abc import Sequence
from functools import partial

from torch import Tensor

from regard.attention.align import softmax
from regard.attention.biases import PairBias
from regard.attention.masks import Mask
from regard.attention.observer import Chosen, LookupRecord, chosen_of
from regard.attention.paths import (
    InTurn,
    Lookup,
    Plain,
    Read,
    first_that_serves,
    is_softmax_of_products,
    product_of,
    sides_of,
)
from regard.attention.scores.protocol import Sides
from regard.kernels.product import of_heads, part, shared_part, shares
from regard.shapes import Weights


def record_of(lookup: Lookup, read: Read) -> LookupRecord:
    """The record of a lookup for an observer. Weights that the path did not compute are computed apart; keys and values
    that several heads share are repeated for each."""
    memory, each = lookup.memory, shares(lookup.query, lookup.memory.key)

    def scores() -> Sides | Tensor:
        simple = lookup.history is None and lookup.bias is None
        sides = sides_of(lookup.score, lookup.query, memory.key) if simple else None
        if sides is not None:
            return sides._replace(key=of_heads(sides.key, None, each))
        if read.scores is not None:
            return read.scores
        found = lookup.score(lookup.query, memory.key)
        return found if lookup.bias is None else found + lookup.bias.of()

    weights = some_weights(lookup) if read.weights is None else chosen_of(read.weights)
    value = of_heads(memory.value, None, each)
    return LookupRecord(lookup.query.shape[-2], weights, value, memory.mask, scores, read.draws)


def some_weights(lookup: Lookup) -> Chosen:
    """A function that computes the weights of chosen heads and queries (None: all). For a softmax of products it
    computes the two sides once, and only the chosen scores."""
    if is_softmax_of_products(lookup):
        return partial(softmax_of_products, product_of(lookup), lookup.memory.mask, lookup.bias)
    path = first_that_serves((InTurn(), Plain()), lookup)

    def choose(heads: Sequence[int] | None, rows: Sequence[int] | None) -> Weights:
        read = path.read(lookup)
        assert read.weights is not None
        return chosen_of(read.weights)(heads, rows)

    return choose


def softmax_of_products(
    sides: Sides, mask: Mask | None, bias: PairBias | None, heads: Sequence[int] | None, rows: Sequence[int] | None
) -> Weights:
    """The weights of the chosen heads and queries (None: all)."""
    heads = heads if sides.query.ndim > 3 else None
    mask = mask if mask is None or rows is None else mask.of_queries(rows)
    allowed = None if mask is None else mask.dense()
    if allowed is not None:
        allowed = shared_part(allowed, heads, None)
    key = sides.key if heads is None else of_heads(sides.key, heads, shares(sides.query, sides.key))
    # The chosen queries have no name, so they are freed before the softmax, where a long read needs the most memory.
    if bias is None:
        return softmax(sides._replace(query=part(sides.query, heads, rows), key=key).scores(), allowed)
    biased = sides._replace(query=part(sides.query, heads, rows), key=key).scores() + bias.of(heads, rows)
    return softmax(biased, allowed)
