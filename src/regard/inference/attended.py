"""What each step of an output looked at: the attention of hypotheses, by forced decoding."""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.data.pair_batch import collate
from regard.models.encoder_decoder import EncoderDecoder
from regard.recording import Measure, record

ROWS = 32  # pairs that are looked at together


@torch.no_grad()
def attended(
    model: EncoderDecoder, pairs: Sequence[tuple[list[int], list[int]]], measure: Measure | None = None
) -> list[Tensor]:
    """The weights on the source with which the model writes each given output, or what a `measure` makes of them, as
    `record` does: `(map, target, source)` for each pair.

    One map a layer and head, in the order of the layers; target and source positions include END.

    Raises:
        ValueError: the model does not attend to its source.
    """
    readers = model.decoder.source_attention
    if readers is None:
        raise ValueError("this model has no attention to its source")
    starts = range(0, len(pairs), ROWS)
    return [weights for first in starts for weights in _maps(model, readers, pairs[first : first + ROWS], measure)]


def _maps(
    model: EncoderDecoder,
    readers: str | tuple[str, ...],
    pairs: Sequence[tuple[list[int], list[int]]],
    measure: Measure | None,
) -> list[Tensor]:
    batch = collate(pairs).to(next(model.parameters()).device)
    with record(model.decoder, only=readers, measure=measure) as maps:
        model(batch.source, batch.source_lengths, batch.target_in)
    weights = maps.together()
    sizes = zip(batch.target_lengths.tolist(), batch.source_lengths.tolist(), strict=True)
    return [weights[row, :, :target, :source].cpu() for row, (target, source) in enumerate(sizes)]
