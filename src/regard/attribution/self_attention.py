"""Attention between the tokens of one text."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.record import record_breakdown
from regard.attribution.aggregation import AGGREGATIONS, single_map
from regard.attribution.gradients import check_no_maps, contributions, embeddings
from regard.attribution.kinds import Kind
from regard.errors import InputError
from regard.maps.alignment import Alignment
from regard.maps.heads import Side
from regard.maps.lookups import Lookups
from regard.shapes import Float


@torch.no_grad()
def attribute_within(
    model: nn.Module,
    names: str | tuple[str, ...] | None,
    text: Side,
    call: Callable[[], object],
    maps: Sequence[int] | None = None,
    *,
    kind: Kind = "weights",
    before: str = "",
) -> tuple[Lookups, Alignment]:
    """The lookups of every layer and head while `call` runs the model on the pieces of one text, and one aggregated map
    of a `kind` in `AGGREGATIONS`. `names` are the modules that attend, as patterns for `record`; `maps` are the numbers
    of the maps to aggregate, layer x heads + head (None: all); `before` labels a key in front of the first piece.

    Raises:
        InputError: the model has no self-attention, no such map, or no maps for a rollout.
    """
    if names is None:
        raise InputError("the run's model is recurrent without attention, so there is nothing to draw")
    aggregation = AGGREGATIONS[kind]
    with record_breakdown(model, names, aggregation.measure(model)) as found:
        call()
    joined = aggregation.aggregate(found, maps)
    more = joined.shape[-1] - len(text.pieces)
    source = text.after(before, more)
    attention = Alignment(_placed(joined, -more), source.pieces, text.pieces)
    if kind == "rollout":
        return single_map(attention, kind), attention
    lookups = found.lookups(source.pieces[: joined.shape[-1]], text.pieces)
    breakdown = found.breakdown(lookups.weights)
    lookups = replace(
        lookups,
        weights=_placed(lookups.weights, -more),
        source=source.pieces,
        breakdown=breakdown and breakdown.with_more(max(0, -more)),
    )
    words = {"source_words": source.words, "target_words": text.words}
    return aggregation.lookups(replace(lookups, **words)), attention


def _placed(weights: np.ndarray, less: int) -> np.ndarray:
    """Add `less` columns of zeros: a tape has no row for the last piece yet."""
    return np.pad(weights, [(0, 0)] * (weights.ndim - 1) + [(0, max(0, less))])


def contributed(
    model: nn.Module,
    tokens: Sequence[str],
    targets: Sequence[str],
    scores: Callable[[], Float[Tensor, " target"]],
    maps: Sequence[int] | None = None,
) -> Alignment:
    """The shares of gradient x input of each token of one text in each of some scores. The model embeds the text at its
    first call. Raises InputError if maps are chosen."""
    check_no_maps(maps)
    first = contributions(embeddings(model), scores)[0]
    return Alignment(first.shares(), tuple(tokens), tuple(targets))
