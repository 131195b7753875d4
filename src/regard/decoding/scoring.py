"""Forced decoding: the log-probabilities of known targets."""

from collections.abc import Sequence

import torch

from regard.data.pair import Pair
from regard.data.tokenizer_pair import Tokenizers, readable
from regard.decoding.texts import limited
from regard.nn.encoder_decoder import EncoderDecoder
from regard.work import computed

ROWS = 32  # pairs that are scored together


def encoded(
    model: EncoderDecoder,
    tokenizers: Tokenizers,
    pairs: Sequence[Pair],
    *,
    truncate: bool = False,
) -> list[tuple[list[int], list[int]]]:
    """Encode pairs. `truncate` cuts texts longer than the model's maximum; a copied word behind the cut becomes the
    unknown token.

    Raises:
        InputError: a text is longer than the model's maximum, without `truncate`.
    """
    places = [pair.place for pair in pairs]
    sources = [tokenizers.source_ids(pair.source) for pair in pairs]
    targets = [tokenizers.target_ids(pair.target, pair.source) for pair in pairs]
    sources, _ = limited(model.max_source, sources, places, truncate=truncate)
    targets, _ = limited(
        model.max_target, targets, places, truncate=truncate, side="target"
    )
    return [
        (source, readable(target, source, tokenizers.target))
        for source, target in zip(sources, targets, strict=True)
    ]


@torch.no_grad()
def log_probabilities(
    model: EncoderDecoder, pairs: Sequence[tuple[list[int], list[int]]]
) -> list[list[float]]:
    """The natural log-probability of each token of each target, the end last, given its source."""
    device = next(model.parameters()).device

    def score(first: int) -> list[list[float]]:
        batch = model.collate(pairs[first : first + ROWS]).to(device)
        logits = model(batch.source, batch.source_lengths, batch.target_in).float()
        scores = logits.log_softmax(-1).gather(
            -1, batch.target_out.clamp(min=0)[..., None]
        )[..., 0]
        lengths = batch.target_lengths.tolist()
        return [
            row[:length] for row, length in zip(scores.tolist(), lengths, strict=True)
        ]

    return [row for some in computed(score, range(0, len(pairs), ROWS)) for row in some]
