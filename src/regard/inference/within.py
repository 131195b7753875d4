"""What the tokens of one text read of each other, as an alignment of the text with itself."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.errors import InputError
from regard.inference.sides import sides
from regard.maps.alignment import Alignment
from regard.maps.heads import Side
from regard.maps.lookups import Lookups, mean_alignment
from regard.recording import record


@dataclass(frozen=True)
class Reading:
    """What a run says of a text, and what it looked at: every layer and head, and the mean of those that were asked
    for."""

    answer: str
    lookups: Lookups
    attention: Alignment


def reading(answer: str, lookups: Lookups, maps: Sequence[int] | None) -> Reading:
    """The mean of all maps, or of those whose numbers, layer x heads + head, are given. Raises InputError for a number
    that no map has."""
    return Reading(answer, lookups, mean_alignment(lookups, maps))


@torch.no_grad()
def within(
    model: nn.Module,
    names: str | tuple[str, ...] | None,
    text: Side,
    call: Callable[[], Any],
    *,
    before: str = "",
) -> tuple[Any, Lookups]:
    """What `call` gives, which reads the pieces of one text with the model, and the weights of all layers and heads.
    `names` are the modules that read, as `record` takes them; `before` is what a key stands for that has its place
    before the first token.

    Raises:
        InputError: the model's tokens do not read each other.
    """
    if names is None:
        raise InputError("the run's model carries a state from token to token and reads none again: nothing to draw")
    with record(model, only=names) as found, sides(model, names) as seen:
        said = call()
    size = next(iter(found.values())).shape[-1]
    more = size - len(text.pieces)
    source = text.after(before, more)
    lookups = found.lookups(source.pieces[:size], text.pieces)
    if more < 0:  # a tape has no place for the last piece yet
        weights = np.pad(lookups.weights, (*[(0, 0)] * 3, (0, -more)))
        lookups = replace(lookups, weights=weights, source=source.pieces)
    else:
        lookups = replace(lookups, vectors=seen.vectors(lookups))
    return said, replace(lookups, source_words=source.words, target_words=text.words)
