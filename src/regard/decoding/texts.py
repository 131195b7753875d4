"""Decode texts to texts, score given targets, and choose by minimum Bayes risk."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Literal

import torch
from torch import Tensor

from regard.data.batches import token_batches
from regard.data.pairs import Pair
from regard.data.tokens import Limit, Tokenizers, limit_lengths, replace_absent_copies
from regard.decoding.engine import Engine
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.search import DecodingConstraints, Search
from regard.decoding.streaming import Step, StepOptions, always
from regard.nn.decoders import EncoderDecoder
from regard.work import compute_batches

BATCH = 4096
"""Padded source tokens times beam width in one batch."""


Side = Literal["source", "target"]
Outputs = list[list[Hypothesis]]


def limit_of(maximum: int | None, side: Side = "source") -> Limit | None:
    """Return the limit of a side of a model with this maximum, END included."""
    if maximum is None:
        return None
    return Limit(maximum, 1, f"model.max_{side}", f"{side}s")


def check_lengths(
    maximum: int | None,
    ids: Sequence[list[int]],
    places: Sequence[str],
    *,
    truncate: bool = False,
    side: Side = "source",
) -> tuple[list[list[int]], int]:
    """Sequences of at most `maximum` tokens, END included, and the number of those that were cut.

    Raises:
        InputError: A sequence is longer, without `truncate`.
    """
    limit = limit_of(maximum, side)
    if limit is None:
        return list(ids), 0
    return limit_lengths(limit, ids, places, truncate=truncate)


def search_texts(
    model: EncoderDecoder,
    tokenizers: Tokenizers,
    texts: Sequence[str],
    search: Search,
    *,
    constraints: DecodingConstraints | None = None,
    places: Sequence[str] | None = None,
    truncate: bool = False,
    engine: Engine | None = None,
) -> list[list[Hypothesis]]:
    """Hypotheses for each text, best first, in the order of the texts.

    Args:
        constraints: Number of hypotheses and prefixes; by default one
            hypothesis without any.
        places: Origins of the texts, for messages.
        truncate: Cut texts longer than the model's maximum.
        engine: The model's engine, used where it supports the search.

    Raises:
        InputError: A text is longer than the model's maximum, without `truncate`.
        ValueError: The settings of the search contradict each other (see `Search`).
    """
    ids, _ = source_ids(
        model.max_source,
        tokenizers,
        texts,
        places,
        truncate=truncate,
    )
    return search_ids(
        [model],
        ids,
        search,
        constraints,
        engine,
    )[0]


def source_ids(
    maximum: int | None,
    tokenizers: Tokenizers,
    texts: Sequence[str],
    places: Sequence[str] | None = None,
    *,
    truncate: bool = False,
) -> tuple[list[list[int]], int]:
    """Return the ids of sources of at most `maximum` tokens, and the number of sources that were cut.

    Raises:
        InputError: As `search_texts`.
    """
    ids = [tokenizers.source_ids(text) for text in texts]
    places = places or [f"text {number}" for number in range(1, len(ids) + 1)]
    return check_lengths(maximum, ids, places, truncate=truncate)


@torch.no_grad()
def search_ids(
    models: Sequence[EncoderDecoder],
    ids: Sequence[list[int]],
    search: Search,
    constraints: DecodingConstraints | None = None,
    engine: Engine | None = None,
) -> list[Outputs]:
    """Hypotheses of several models with a shared encoder, for each source.

    Each source is encoded once. A single model may have an `engine`.

    Raises:
        ValueError: As `search_texts`.
    """
    first = models[0]
    device = next(first.encoder.parameters()).device

    def decode(rows: list[int]) -> list[Outputs]:
        examples = [(ids[row], []) for row in rows]
        batch = first.collate(examples).to(device)
        lengths = batch.source_lengths
        row_constraints = None if constraints is None else constraints.of(rows)
        memory = first.encoder(batch.source, lengths)
        limit = search.limit(lengths)
        outputs = []
        for model in models:
            model_limit = _limit(model, limit)
            hypotheses = search(model.decoder, memory, model_limit, row_constraints)
            outputs.append(hypotheses)
        return outputs

    def decode_by_engine(rows: list[int]) -> list[Outputs]:
        assert engine is not None
        results = engine.search([ids[row] for row in rows], search)
        outputs: dict[int, Any] = dict(zip(rows, results, strict=True))
        missing = [row for row in rows if outputs[row] is None]
        outputs = {row: [best] for row, best in outputs.items()}
        if missing:
            (decoded,) = decode(missing)
            outputs.update(zip(missing, decoded, strict=True))
        return [[*outputs.values()]]

    compute = decode
    if engine is not None and engine.supports(search, constraints):
        compute = decode_by_engine
    lengths = [(len(tokens) + 1, 0) for tokens in ids]
    longest, _ = max(lengths, default=(1, 0))
    tokens = max(longest, BATCH // search.beam)
    batches = [[0]]
    if len(ids) != 1:
        batches = list(token_batches(lengths, tokens, seed=0, epoch=0))
    decoded = compute_batches(compute, batches)
    order = [*chain(*batches)]
    results = []
    for index in range(len(models)):
        outputs = chain(*(batch[index] for batch in decoded))
        by_row = dict(zip(order, outputs, strict=True))
        results.append([by_row[row] for row in range(len(ids))])
    return results


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

    An output continues as long as `active(row)` is true, which is called before each
    step.

    Raises:
        ValueError: A prefix is longer than its output may be.
    """
    device = next(model.parameters()).device
    batch = model.collate([(tokens, []) for tokens in ids]).to(device)
    decoder = model.decoder
    with torch.no_grad():
        memory = model.encoder(batch.source, batch.source_lengths)
    limit = _limit(model, search.limit(batch.source_lengths))
    lengths = batch.source_lengths.tolist()
    options = StepOptions(decoder, decoder.source_attention, candidates, active)
    for step in search.stream(
        decoder,
        memory,
        limit,
        constraints,
        options,
    ):
        weights = step.attention
        if weights is not None:
            step = replace(step, attention=weights[..., : lengths[step.row]])
        yield step


def best_texts(
    tokenizers: Tokenizers,
    texts: Sequence[str],
    hypotheses: Sequence[Sequence[Hypothesis]],
) -> list[str]:
    """Return the text of the best hypothesis for each source."""
    return [
        tokenizers.text(best.tokens, text)
        for text, (best, *_) in zip(texts, hypotheses, strict=True)
    ]


def _limit(model: EncoderDecoder, limit: Tensor) -> Tensor:
    """Return the limit of a search, at most the model's own maximum."""
    maximum = model.max_target
    return limit if maximum is None else limit.clamp(max=maximum)


ROWS = 32  # pairs that are scored together


def encode_pairs(
    model: EncoderDecoder,
    tokenizers: Tokenizers,
    pairs: Sequence[Pair],
    *,
    truncate: bool = False,
) -> list[tuple[list[int], list[int]]]:
    """Encode pairs.

    `truncate` cuts texts longer than the model's maximum; a copied word behind the cut
    becomes the unknown token.

    Raises:
        InputError: A text is longer than the model's maximum, without `truncate`.
    """
    places = [pair.place for pair in pairs]
    sources = [tokenizers.source_ids(pair.source) for pair in pairs]
    targets = [tokenizers.target_ids(pair.target, pair.source) for pair in pairs]
    sources, _ = check_lengths(model.max_source, sources, places, truncate=truncate)
    targets, _ = check_lengths(
        model.max_target, targets, places, truncate=truncate, side="target"
    )
    return [
        (source, replace_absent_copies(target, source, tokenizers.target))
        for source, target in zip(sources, targets, strict=True)
    ]


@torch.no_grad()
def log_probabilities(
    model: EncoderDecoder,
    pairs: Sequence[tuple[list[int], list[int]]],
) -> list[list[float]]:
    """Return the natural log-probability of each token of each target, the end last, given its source."""
    device = next(model.parameters()).device

    def score(first: int) -> list[list[float]]:
        batch_pairs = pairs[first : first + ROWS]
        batch = model.collate(batch_pairs).to(device)
        logits = model(batch.source, batch.source_lengths, batch.target_in)
        scores = logits.float().log_softmax(-1)
        targets = batch.target_out.clamp(min=0)
        chosen = scores.gather(-1, targets[..., None])
        rows = chosen.squeeze(-1).tolist()
        lengths = batch.target_lengths.tolist()
        return [row[:length] for row, length in zip(rows, lengths, strict=True)]

    return list(chain(*compute_batches(score, range(0, len(pairs), ROWS))))
