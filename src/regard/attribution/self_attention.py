"""What the tokens of one text read of each other, as lookups of the text in itself."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.record import record_breakdown
from regard.attribution.aggregation import JOININGS, alone
from regard.attribution.gradients import check_no_maps, contributions, embeddings
from regard.attribution.kinds import Kind
from regard.errors import InputError
from regard.maps.alignment import Alignment
from regard.maps.heads import Side
from regard.maps.lookups import Lookups
from regard.shapes import Float


@torch.no_grad()
def within(
    model: nn.Module,
    names: str | tuple[str, ...] | None,
    text: Side,
    call: Callable[[], Any],
    maps: Sequence[int] | None = None,
    *,
    kind: Kind = "weights",
    before: str = "",
) -> tuple[Any, Lookups, Alignment]:
    """What `call` gives, which reads the pieces of one text with the model, and what they read of each other, in every
    layer and head and as one: a `kind` of `JOININGS`, of all layers and heads, or of those whose numbers, layer x
    heads + head, are given. `names` are the modules that read, as `record` takes them; `before` is what a key stands
    for that has its place before the first piece.

    Raises:
        InputError: the model's tokens do not read each other, or it has no such map, or none that make a rollout.
    """
    if names is None:
        raise InputError("the run's model carries a state from token to token and reads none again: nothing to draw")
    joining = JOININGS[kind]
    with record_breakdown(model, names, joining.measure(model)) as found:
        prediction = call()
    joined = joining.joined(found, maps)
    more = joined.shape[-1] - len(text.pieces)
    source = text.after(before, more)
    attention = Alignment(_placed(joined, -more), source.pieces, text.pieces)
    if kind == "rollout":
        return prediction, alone(attention, kind), attention
    lookups = found.lookups(source.pieces[: joined.shape[-1]], text.pieces)
    breakdown = found.breakdown(lookups.weights)
    lookups = replace(
        lookups,
        weights=_placed(lookups.weights, -more),
        source=source.pieces,
        breakdown=breakdown and breakdown.with_more(max(0, -more)),
    )
    words = {"source_words": source.words, "target_words": text.words}
    return prediction, joining.lookups(replace(lookups, **words)), attention


def _placed(weights: np.ndarray, less: int) -> np.ndarray:
    """With so many columns more: a tape has no place for the last piece yet."""
    return np.pad(weights, [(0, 0)] * (weights.ndim - 1) + [(0, max(0, less))])


def contributed(
    model: nn.Module,
    tokens: Sequence[str],
    targets: Sequence[str],
    scores: Callable[[], Float[Tensor, " target"]],
    maps: Sequence[int] | None = None,
) -> Alignment:
    """How much each of the tokens of one text, which the model embeds at its first call, contributes to each of some
    scores: the shares of gradient x input. Raises InputError where maps are chosen."""
    check_no_maps(maps)
    first = contributions(embeddings(model), scores)[0]
    return Alignment(first.shares(), tuple(tokens), tuple(targets))
