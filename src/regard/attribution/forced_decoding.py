"""What each step of an output looked at: the attention of hypotheses, by forced decoding."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from regard.attention.breakdown import worked
from regard.attention.record import Maps, Measure, record
from regard.attribution.aggregation import Joining
from regard.attribution.kinds import ROLES
from regard.data.pair_batch import PairBatch
from regard.maps.heads import Side
from regard.maps.lookups import Lookups
from regard.nn.encoder_decoder import EncoderDecoder

ROWS = 32  # pairs that are looked at together
Readers = str | tuple[str, ...]
Pairs = Sequence[tuple[list[int], list[int]]]


@torch.no_grad()
def attended(model: EncoderDecoder, pairs: Pairs, measure: Measure | None = None) -> list[Tensor]:
    """The weights on the source with which the model writes each given output, or what a `measure` makes of them, as
    `record` does: `(map, target, source)` for each pair.

    One map a layer and head, in the order of the layers; target and source positions include the end.

    Raises:
        ValueError: the model does not attend to its source.
    """
    readers, starts = _readers(model), range(0, len(pairs), ROWS)
    return [weights for first in starts for weights in _maps(model, readers, pairs[first : first + ROWS], measure)]


@torch.no_grad()
def lookups(
    model: EncoderDecoder, pair: tuple[list[int], list[int]], source: Side, target: Side, joining: Joining
) -> Lookups:
    """What the model looks at while it writes a given output, in every layer and head, as a joining has it. The sides
    have the end too, the target's where it has a row.

    Raises:
        ValueError: the model does not attend to its source.
    """
    readers = _readers(model)
    with worked(model.decoder, readers) as seen:
        _, maps = _recorded(model, readers, [pair], joining.measure(model))
    found = maps.lookups(source.pieces, target.pieces)
    words = {"source_words": source.words, "target_words": target.words}
    return joining.lookups(replace(found, name=ROLES["cross"], **words, workings=seen.workings(found.weights)))


def _readers(model: EncoderDecoder) -> Readers:
    """Raises ValueError for a model that has none."""
    readers = model.decoder.source_attention
    if readers is None:
        raise ValueError("this model has no attention to its source")
    return readers


def _recorded(
    model: EncoderDecoder, readers: Readers, pairs: Pairs, measure: Measure | None = None
) -> tuple[PairBatch, Maps]:
    """A batch of the pairs, and what the readers hand over while the model is made to write the targets."""
    batch = model.collate(pairs).to(next(model.parameters()).device)
    with record(model.decoder, only=readers, measure=measure) as maps:
        model(batch.source, batch.source_lengths, batch.target_in)
    return batch, maps


def _maps(model: EncoderDecoder, readers: Readers, pairs: Pairs, measure: Measure | None) -> list[Tensor]:
    batch, maps = _recorded(model, readers, pairs, measure)
    weights = maps.together()
    sizes = zip(batch.target_lengths.tolist(), batch.source_lengths.tolist(), strict=True)
    return [weights[row, :, :target, :source].cpu() for row, (target, source) in enumerate(sizes)]
