"""What every head of every layer read: of a source, and of the tokens of one text."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.data.pair_batch import collate
from regard.errors import InputError
from regard.maps.heads import HeadMaps, Side
from regard.models.encoder_decoder import EncoderDecoder
from regard.recording import Maps, record

NOTHING_READ = "the run's model carries a state from token to token and reads none again: nothing to draw"


@dataclass(frozen=True)
class ByHeads:
    """What a run says of a text, and what each head of each layer read meanwhile."""

    answer: str
    maps: HeadMaps


@torch.no_grad()
def heads_within(
    model: nn.Module, names: str | tuple[str, ...] | None, text: Side, call: Callable[[], Any], *, before: str = ""
) -> tuple[Any, HeadMaps]:
    """What `call` gives, which reads the pieces of one text with the model, and what every head read of them: the whole
    of what `regard.inference.within.within` joins to one map. Raises InputError where the pieces do not read each
    other."""
    if names is None:
        raise InputError(NOTHING_READ)
    with record(model, only=names) as found:
        said = call()
    layers = [placed(each, len(text.pieces)) for each in _layers(found)]
    more = layers[0].shape[-1] - len(text.pieces)
    return said, HeadMaps.of_layers(layers, text.after(before, more), text)


@torch.no_grad()
def heads_across(
    model: EncoderDecoder, names: str | tuple[str, ...], pair: tuple[list[int], list[int]], source: Side, target: Side
) -> HeadMaps:
    """What every head of the decoder reads of the source while it writes a given output; both without END, whose place
    is in the sides."""
    batch = collate([pair]).to(next(model.parameters()).device)
    with record(model.decoder, only=names) as found:
        model(batch.source, batch.source_lengths, batch.target_in)
    return HeadMaps.of_layers(_layers(found), source, target)


def placed(weights: np.ndarray, tokens: int) -> np.ndarray:
    """With a column for each of the tokens: a tape has no place for the last one yet."""
    less = max(0, tokens - weights.shape[-1])
    return np.pad(weights, [(0, 0)] * (weights.ndim - 1) + [(0, less)])


def _layers(found: Maps) -> list[np.ndarray]:
    """The maps of each module, `(head, query, key)`."""
    weights = [each[0].double().cpu().numpy() for each in found.values()]
    return [each if each.ndim == 3 else each[None] for each in weights]
