"""Attention of outputs to their sources, recorded by forced decoding."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

import torch
from torch import Tensor

from regard.attention.record import Maps, Measure, record, record_breakdown
from regard.attribution.aggregation import Aggregation
from regard.attribution.kinds import ROLES
from regard.data.batching import PairBatch
from regard.maps.heads import Side
from regard.maps.lookups import Lookups
from regard.nn.encoder_decoder import EncoderDecoder
from regard.work import checkpoint

ROWS = 32  # pairs in one batch
Readers = str | tuple[str, ...]
Pairs = Sequence[tuple[list[int], list[int]]]


@torch.no_grad()
def attended(
    model: EncoderDecoder, pairs: Pairs, measure: Measure | None = None
) -> list[Tensor]:
    """The weights on the source with which the model writes each output, or a `measure` of them as in `record`: `(map,
    target, source)` for each pair.

    There is one map per layer and head, in the order of the layers. Target and source positions include the end.

    Raises:
        ValueError: the model does not attend to its source.
    """
    found = []
    for first in range(0, len(pairs), ROWS):
        checkpoint()
        recording = record(model.decoder, only=readers_of(model), measure=measure)
        batch, maps = forced(model, pairs[first : first + ROWS], recording)
        weights = maps.together()
        sizes = zip(
            batch.target_lengths.tolist(), batch.source_lengths.tolist(), strict=True
        )
        found += [
            weights[row, :, :target, :source].cpu()
            for row, (target, source) in enumerate(sizes)
        ]
    return found


@torch.no_grad()
def lookups(
    model: EncoderDecoder,
    pair: tuple[list[int], list[int]],
    source: Side,
    target: Side,
    aggregation: Aggregation,
) -> tuple[Lookups, Tensor]:
    """The lookups with which the model writes an output, in every layer and head, and the tensor of `attended`, from
    one pass. The sides include the end, the target's only if it has a row.

    Raises:
        ValueError: the model does not attend to its source.
    """
    recording = record_breakdown(
        model.decoder, readers_of(model), aggregation.measure(model)
    )
    _, maps = forced(model, [pair], recording)
    found = maps.lookups(source.pieces, target.pieces)
    words = {"source_words": source.words, "target_words": target.words}
    found = replace(
        found, name=ROLES["cross"], **words, breakdown=maps.breakdown(found.weights)
    )
    return aggregation.lookups(found), maps.together()[0].cpu()


def readers_of(model: EncoderDecoder) -> Readers:
    """The names of the decoder's source attention. Raises ValueError if there is none."""
    readers = model.decoder.source_attention
    if readers is None:
        raise ValueError("this model has no attention to its source")
    return readers


def forced(
    model: EncoderDecoder, pairs: Pairs, recording: AbstractContextManager[Maps]
) -> tuple[PairBatch, Maps]:
    """A batch of the pairs, and the maps recorded while the model reads its targets."""
    batch = model.collate(pairs).to(next(model.parameters()).device)
    with recording as maps:
        model(batch.source, batch.source_lengths, batch.target_in)
    return batch, maps
