"""Decode texts to texts: batches by length, search, and outputs in the order of the inputs."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from regard.data.token_batches import token_batches
from regard.data.tokenizer_pair import Tokenizers
from regard.data.truncation import Limit, limit_lengths
from regard.decoding.constraints import DecodingConstraints
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.search import Search
from regard.decoding.streaming import Step, StepOptions, always
from regard.nn.encoder_decoder import EncoderDecoder
from regard.work import computed

BATCH = 4096
"""Padded source tokens times beam width in one batch."""


Side = Literal["source", "target"]


def limit_of(maximum: int | None, side: Side = "source") -> Limit | None:
    """The limit of a side of a model with this maximum, END included."""
    return (
        None if maximum is None else Limit(maximum, 1, f"model.max_{side}", f"{side}s")
    )


def limited(
    maximum: int | None,
    ids: Sequence[list[int]],
    places: Sequence[str],
    *,
    truncate: bool = False,
    side: Side = "source",
) -> tuple[list[list[int]], int]:
    """Sequences of at most `maximum` tokens, END included, and the number of those that were cut.

    Raises:
        InputError: a sequence is longer, without `truncate`.
    """
    limit = limit_of(maximum, side)
    return (
        (list(ids), 0)
        if limit is None
        else limit_lengths(limit, ids, places, truncate=truncate)
    )


def search_texts(
    model: EncoderDecoder,
    tokenizers: Tokenizers,
    texts: Sequence[str],
    search: Search,
    *,
    constraints: DecodingConstraints | None = None,
    places: Sequence[str] | None = None,
    truncate: bool = False,
) -> list[list[Hypothesis]]:
    """Hypotheses for each text, best first, in the order of the texts.

    Args:
        constraints: number of hypotheses, prefixes and phrases; by default one hypothesis without any.
        places: origins of the texts, for messages.
        truncate: cut texts longer than the model's maximum.

    Raises:
        InputError: a text is longer than the model's maximum, without `truncate`.
        ValueError: the settings of the search contradict each other (see `Search`).
    """
    ids, _ = source_ids(model.max_source, tokenizers, texts, places, truncate=truncate)
    return search_ids([model], ids, search, constraints)[0]


def source_ids(
    maximum: int | None,
    tokenizers: Tokenizers,
    texts: Sequence[str],
    places: Sequence[str] | None = None,
    *,
    truncate: bool = False,
) -> tuple[list[list[int]], int]:
    """The ids of sources of at most `maximum` tokens, and the number of sources that were cut. Raises InputError as
    `search_texts` does."""
    ids = [tokenizers.source_ids(text) for text in texts]
    places = (
        [f"text {number}" for number in range(1, len(ids) + 1)]
        if places is None
        else places
    )
    return limited(maximum, ids, places, truncate=truncate)


@torch.no_grad()
def search_ids(
    models: Sequence[EncoderDecoder],
    ids: Sequence[list[int]],
    search: Search,
    constraints: DecodingConstraints | None = None,
) -> list[list[list[Hypothesis]]]:
    """Hypotheses of several models with a shared encoder, for each source; each source is encoded once. Raises
    ValueError as `search_texts` does."""
    encoder = models[0].encoder
    device = next(encoder.parameters()).device

    def decode(rows: list[int]) -> list[list[list[Hypothesis]]]:
        batch = models[0].collate([(ids[row], []) for row in rows]).to(device)
        own = None if constraints is None else constraints.of(rows)
        memory, limit = (
            encoder(batch.source, batch.source_lengths),
            search.limit(batch.source_lengths),
        )
        return [
            search(model.decoder, memory, _most(model, limit), own) for model in models
        ]

    found: list[list[list[Hypothesis]]] = [[[] for _ in ids] for _ in models]
    batches = list(_batches(ids, max(1, BATCH // search.beam)))
    for rows, decoded in zip(batches, computed(decode, batches), strict=True):
        for outputs, hypotheses in zip(found, decoded, strict=True):
            for row, each in zip(rows, hypotheses, strict=True):
                outputs[row] = each
    return found


def stream_ids(
    model: EncoderDecoder,
    ids: Sequence[list[int]],
    search: Search,
    constraints: DecodingConstraints,
    *,
    candidates: int = 0,
    active: Callable[[int], bool] = always,
) -> Iterator[Step]:
    """Decode all sources together under the constraints, step by step, with weights and `candidates` likely tokens.
    An output continues as long as `active(row)` is true, which is called before each step.

    Raises:
        ValueError: a prefix is longer than its output may be.
    """
    batch = model.collate([(each, []) for each in ids]).to(
        next(model.parameters()).device
    )
    with torch.no_grad():
        memory = model.encoder(batch.source, batch.source_lengths)
    limit, lengths = (
        _most(model, search.limit(batch.source_lengths)),
        batch.source_lengths.tolist(),
    )
    options = StepOptions(
        model.decoder, model.decoder.source_attention, candidates, active
    )
    for step in search.stream(model.decoder, memory, limit, constraints, options):
        read = step.attention
        yield (
            step
            if read is None
            else replace(step, attention=read[..., : lengths[step.row]])
        )


def best_texts(
    tokenizers: Tokenizers, texts: Sequence[str], found: Sequence[Sequence[Hypothesis]]
) -> list[str]:
    """The text of the best hypothesis for each source."""
    return [
        tokenizers.text(best.tokens, text)
        for text, (best, *_) in zip(texts, found, strict=True)
    ]


def _most(model: EncoderDecoder, limit: Tensor) -> Tensor:
    """The limit of a search, at most the model's own maximum."""
    return limit if model.max_target is None else limit.clamp(max=model.max_target)


def _batches(ids: Sequence[list[int]], tokens: int) -> Iterator[list[int]]:
    """Batches of rows of similar length."""
    if len(ids) == 1:
        yield [0]
        return
    lengths = [(len(each) + 1, 0) for each in ids]
    longest = max((length for length, _ in lengths), default=1)
    yield from token_batches(lengths, max(tokens, longest), seed=0, epoch=0)
