"""Attention between the tokens of one text."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.record import record, record_breakdown
from regard.attribution.aggregation import AGGREGATIONS, single_map
from regard.attribution.gradients import check_no_maps, contributions, embeddings
from regard.attribution.kinds import Kind
from regard.errors import InputError
from regard.maps.alignment import Alignment
from regard.maps.greatest import GreatestWeights, greatest
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
    aggregation = AGGREGATIONS[kind]
    with record_breakdown(model, _known(names), aggregation.measure(model)) as found:
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


@torch.no_grad()
def greatest_within(
    model: nn.Module,
    names: str | tuple[str, ...] | None,
    text: Side,
    call: Callable[[int], object],
    count: int,
    *,
    target: Sequence[str] | None = None,
    before: str = "",
) -> GreatestWeights:
    """The `count` greatest weights of each query in every layer and head while `call(length)` runs the model on that
    many pieces of one text; of its last queries only, under their labels, if there is a `target`. Other arguments are
    those of `attribute_within`. Weights of a few queries exist at a time.

    Raises InputError for a model without self-attention, and for a count below 1.
    """
    names, reduction, length = _known(names), greatest(count), len(text.pieces)
    with record(
        model, names
    ) as one:  # a pass over one piece has the keys in front of the text
        call(1)
    source = text.after(before, max(each.shape[-1] for each in one.values()) - 1)
    target = text.pieces if target is None else tuple(target)
    with record(
        model, names, rows=range(length - len(target), length), reduce=reduction
    ) as found:
        call(length)
    places = torch.cat(
        [_with_heads(found.places(name)) for name in found], 1
    ).unflatten(1, (len(found), -1))
    weights = torch.cat([_with_heads(each) for each in found.values()], 1).unflatten(
        1, (len(found), -1)
    )
    return GreatestWeights(
        weights[0].float().cpu().numpy(), places[0].cpu().numpy(), source.pieces, target
    )


def _with_heads(recorded: Tensor) -> Tensor:
    return recorded if recorded.ndim == 4 else recorded[:, None]


def _known(names: str | tuple[str, ...] | None) -> str | tuple[str, ...]:
    if names is None:
        raise InputError(
            "the run's model is recurrent without attention, so there is nothing to draw"
        )
    return names


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
