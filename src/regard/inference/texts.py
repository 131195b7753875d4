"""Texts in, texts out: batches by length, search, and the outputs in the order of the inputs."""

from collections.abc import Iterator, Sequence

import torch

from regard.data.batches import token_batches
from regard.data.limit import limit_lengths
from regard.data.pair_batch import collate
from regard.decoding.demand import Demand
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.search import Search
from regard.inference.tokenizers import Tokenizers
from regard.models.encoder_decoder import EncoderDecoder

BATCH = 4096
"""Padded source tokens times the beam that are searched together."""


def limited(
    maximum: int | None, ids: Sequence[list[int]], places: Sequence[str], *, truncate: bool = False
) -> tuple[list[list[int]], int]:
    """The sequences, none longer with END than `maximum`, and how many were cut for that.

    Raises:
        InputError: one is longer and `truncate` does not ask to keep its beginning.
    """
    if maximum is None:
        return list(ids), 0
    return limit_lengths(ids, maximum - 1, places, truncate=truncate)


@torch.no_grad()
def search_texts(
    model: EncoderDecoder,
    tokenizers: Tokenizers,
    texts: Sequence[str],
    search: Search,
    *,
    demand: Demand | None = None,
    places: Sequence[str] | None = None,
    truncate: bool = False,
) -> list[list[Hypothesis]]:
    """The hypotheses for each text, best first, in the order of the texts, as many and such as `demand` says.

    `places` say where the texts came from, for messages; `truncate` cuts those that are longer than the model can take.

    Raises:
        InputError: a text is longer than the model can take.
        ValueError: the search's numbers do not fit together (see `beam`).
    """
    device = next(model.parameters()).device
    ids = [tokenizers.source_ids(text) for text in texts]
    places = [f"text {number}" for number in range(1, len(ids) + 1)] if places is None else places
    ids, _ = limited(model.max_source, ids, places, truncate=truncate)
    found: list[list[Hypothesis]] = [[] for _ in texts]
    for rows in _batches(ids, max(1, BATCH // search.beam)):
        batch = collate([(ids[row], []) for row in rows]).to(device)
        memory = model.encoder(batch.source, batch.source_lengths)
        limit = search.limit(batch.source_lengths)
        if model.max_target is not None:
            limit = limit.clamp(max=model.max_target)
        for row, hypotheses in zip(rows, search(model.decoder, memory, limit, demand), strict=True):
            found[row] = hypotheses
    return found


def best_texts(tokenizers: Tokenizers, texts: Sequence[str], found: Sequence[Sequence[Hypothesis]]) -> list[str]:
    """What `search_texts` found best for each text."""
    return [tokenizers.text(best.tokens, text) for text, (best, *_) in zip(texts, found, strict=True)]


def _batches(ids: Sequence[list[int]], tokens: int) -> Iterator[list[int]]:
    """Rows of similar length together."""
    lengths = [(len(each) + 1, 0) for each in ids]
    longest = max((length for length, _ in lengths), default=1)
    yield from token_batches(lengths, max(tokens, longest), seed=0, epoch=0)
