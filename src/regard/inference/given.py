"""How likely a model finds given targets."""

from collections.abc import Sequence

import torch

from regard.data.pair_batch import collate
from regard.models.encoder_decoder import EncoderDecoder

ROWS = 32  # pairs that are scored together


@torch.no_grad()
def log_probabilities(model: EncoderDecoder, pairs: Sequence[tuple[list[int], list[int]]]) -> list[list[float]]:
    """Of each target's tokens, END last, given its source: forced decoding, by natural logarithm."""
    device, found = next(model.parameters()).device, []
    for first in range(0, len(pairs), ROWS):
        batch = collate(pairs[first : first + ROWS]).to(device)
        logits = model(batch.source, batch.source_lengths, batch.target_in).float()
        scores = logits.log_softmax(-1).gather(-1, batch.target_out[..., None])[..., 0]
        lengths = batch.target_lengths.tolist()
        found.extend(row[:length] for row, length in zip(scores.tolist(), lengths, strict=True))
    return found
