"""Attribution of outputs to their sources, recorded by forced decoding."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

import torch
from torch import Tensor

from regard.attention.record import (
    Maps,
    Measure,
    ReportsWeights,
    record,
    record_breakdown,
)
from regard.attribution.aggregation import (
    AGGREGATIONS,
    Aggregation,
    Map,
    ValueNorms,
    roll_out,
    to_single_map,
)
from regard.attribution.gradients import (
    check_no_maps,
    compute_contributions,
    find_embeddings,
    select_log_probabilities,
)
from regard.attribution.kinds import ROLES, Kind
from regard.data.batches import PairBatch
from regard.errors import InputError
from regard.maps.alignment import Alignment
from regard.maps.heads import Side
from regard.maps.lookups import Lookups
from regard.maps.reductions import average_maps, shares
from regard.nn.encoder_decoder import EncoderDecoder
from regard.shapes import Float
from regard.work import checkpoint

BATCH = 32
"""Pairs in one batch."""
Names = str | tuple[str, ...]
TokenPair = tuple[list[int], list[int]]
"""A source without its end, and the output's tokens, with the end if it has one."""
Pairs = Sequence[TokenPair]
Attribute = Callable[[EncoderDecoder, Pairs, Sequence[int] | None], list[Map]]
"""Returns a map `(target, source)` for each output, from the maps with these
numbers."""


@torch.no_grad()
def record_source_attention(
    model: EncoderDecoder, pairs: Pairs, measure: Measure | None = None
) -> list[Tensor]:
    """Record the weights on the source with which the model writes each output.

    Args:
        model: The model.
        pairs: Sources and outputs; positions include the end.
        measure: What to record instead, as in `record`.

    Returns:
        `(map, target, source)` for each pair: a map per layer and head, in order.

    Raises:
        ValueError: The model does not attend to its source.
    """
    results = []
    names = source_attention_names(model)
    for first in range(0, len(pairs), BATCH):
        checkpoint()
        recording = record(model.decoder, only=names, measure=measure)
        batch, maps = run_forced(model, pairs[first : first + BATCH], recording)
        weights = maps.stack_heads()
        targets, sources = batch.target_lengths.tolist(), batch.source_lengths.tolist()
        for row, (target, source) in enumerate(zip(targets, sources, strict=True)):
            results.append(weights[row, :, :target, :source].cpu())
    return results


@torch.no_grad()
def record_lookups(
    model: EncoderDecoder,
    pair: TokenPair,
    source: Side,
    target: Side,
    aggregation: Aggregation,
) -> tuple[Lookups, Tensor]:
    """Record the lookups with which the model writes an output, in one pass.

    Args:
        model: The model.
        pair: The source and the output.
        source: The pieces of the source with its end.
        target: The pieces of the output, with the end only if it has a row.
        aggregation: How to record.

    Returns:
        The lookups of every layer and head, and the tensor of
        `record_source_attention`.

    Raises:
        ValueError: The model does not attend to its source.
    """
    recording = record_breakdown(
        model.decoder, source_attention_names(model), aggregation.measure(model)
    )
    _, maps = run_forced(model, [pair], recording)
    lookups = maps.lookups(source.pieces, target.pieces)
    lookups = replace(
        lookups,
        name=ROLES["cross"],
        source_words=source.words,
        target_words=target.words,
        breakdown=maps.breakdown(lookups.weights),
    )
    return aggregation.lookups(lookups), maps.stack_heads()[0].cpu()


def source_attention_names(model: EncoderDecoder) -> Names:
    """Return the names of the decoder's source attention.

    Raises:
        ValueError: There is none.
    """
    names = model.decoder.source_attention
    if names is None:
        raise ValueError("this model has no attention to its source")
    return names


def run_forced(
    model: EncoderDecoder, pairs: Pairs, recording: AbstractContextManager[Maps]
) -> tuple[PairBatch, Maps]:
    """Return a batch of pairs, and the maps recorded by forced decoding."""
    batch = model.collate(pairs).to(next(model.parameters()).device)
    with recording as maps:
        model(batch.source, batch.source_lengths, batch.target_in)
    return batch, maps


def attribute_by_weights(
    model: EncoderDecoder,
    outputs: Pairs,
    maps: Sequence[int] | None = None,
) -> list[Map]:
    """Average the weights.

    Raises:
        ValueError: As `record_source_attention`.
        InputError: There is no map of a number.
    """
    weights = record_source_attention(model, _model_inputs(outputs))
    return [_mean(item, maps) for item in weights]


def attribute_by_norms(
    model: EncoderDecoder,
    outputs: Pairs,
    maps: Sequence[int] | None = None,
) -> list[Map]:
    """Average the value norms, and divide each row into shares.

    Raises:
        ValueError: As `record_source_attention`.
        InputError: There is no map of a number.
    """
    pairs, measure = _model_inputs(outputs), ValueNorms(model)
    norms = record_source_attention(model, pairs, measure)
    return [_mean_shares(item, maps) for item in norms]


@torch.no_grad()
def attribute_by_rollout(
    model: EncoderDecoder,
    outputs: Pairs,
    maps: Sequence[int] | None = None,
) -> list[Map]:
    """Multiply the mean weights on the encoder's states by the encoder's rollout.

    The rollout gives the share of each input in these states.

    Raises:
        ValueError: As `record_source_attention`.
        InputError: There is no map of a number, or the encoder has no layers of
            self-attention.
    """
    if model.encoder.self_attention is None:
        raise InputError(
            "a rollout needs self-attention layers with residuals, which this run's "
            "encoder lacks; use weights, norms or gradient"
        )
    encoder = _full_names("encoder", model.encoder.self_attention)
    decoder = _full_names("decoder", source_attention_names(model))
    results = []
    for pair in _model_inputs(outputs):
        recording = record(model, only=[*encoder, *decoder])
        _, recorded = run_forced(model, [pair], recording)
        encoded = [name for name in recorded if name.startswith("encoder.")]
        layers = [recorded[name] for name in encoded]
        weights = recorded.exclude(*encoded).stack_heads()[0].cpu()
        results.append(_mean(weights, maps) @ roll_out(layers))
    return results


def attribute_by_gradient(
    model: EncoderDecoder,
    outputs: Pairs,
    maps: Sequence[int] | None = None,
) -> list[Map]:
    """Return the shares of gradient x input in each token's log-probability.

    Raises:
        InputError: Maps are chosen.
    """
    check_no_maps(maps)
    results = []
    for source, target in outputs:
        gradient = compute_input_gradient(model, source, target)
        results.append(shares(gradient.double().cpu().numpy()))
    return results


def compute_input_gradient(
    model: EncoderDecoder, source: list[int], target: list[int]
) -> Float[Tensor, "target source"]:
    """Compute gradient x input of each source token for each target token's score.

    The score is the log-probability of the target token given those before it.
    """
    batch = model.collate([(source, target[:-1])]).to(next(model.parameters()).device)

    def scores() -> Tensor:
        logits = model(batch.source, batch.source_lengths, batch.target_in)[0]
        return select_log_probabilities(logits, target)

    contributions = compute_contributions(find_embeddings(model.encoder), scores)
    if isinstance(model.encoder, ReportsWeights):
        return contributions[0].amounts[:, 0, model.encoder.skipped :]
    amounts = [
        item.amounts[:, 0] for item in contributions if item.embedded is batch.source
    ]
    return torch.stack(amounts).sum(0)


def _model_inputs(outputs: Pairs) -> list[TokenPair]:
    """Return the model's inputs for these outputs: the last token is not read."""
    return [(source, target[:-1]) for source, target in outputs]


def _full_names(side: str, names: Names) -> list[str]:
    """Return names within the model of one side's modules.

    The recorder names a module `x.attend` by `x`.
    """
    if isinstance(names, str):
        names = (names,)
    full = [f"{side}.{name}" for name in names]
    return [*full, *(name.removesuffix(".attend") for name in full)]


def _mean(weights: Tensor, maps: Sequence[int] | None) -> Map:
    return average_maps(weights.numpy(), maps)


def _mean_shares(norms: Tensor, maps: Sequence[int] | None) -> Map:
    return shares(average_maps(norms.double().numpy(), maps))


SOURCES: dict[Kind, Attribute] = {
    "weights": attribute_by_weights,
    "gradient": attribute_by_gradient,
    "norms": attribute_by_norms,
    "rollout": attribute_by_rollout,
}
RECORDED: dict[Kind, Callable[[Tensor, Sequence[int] | None], Map]] = {
    "weights": _mean,
    "norms": _mean_shares,
}
"""The kinds with a map per layer and head, and how these are aggregated."""


def attribute_cross_attention(
    model: EncoderDecoder,
    output: TokenPair,
    sides: tuple[Side, Side],
    kind: Kind,
    maps: Sequence[int] | None = None,
) -> tuple[Lookups, Alignment]:
    """Attribute one output to its source.

    Args:
        model: The model.
        output: The source and the output.
        sides: The source with its end, and the output's tokens.
        kind: The kind of the maps.
        maps: The numbers of the maps to aggregate. Default: all.

    Returns:
        The lookups of every layer and head, if the kind has them, and one aggregated
        map.

    Raises:
        ValueError: As the functions of `SOURCES`.
        InputError: As the functions of `SOURCES`.
    """
    labels = sides[0].pieces, sides[1].pieces
    if kind not in RECORDED:
        (weights,) = SOURCES[kind](model, [output], maps)
        attention = Alignment(weights, *labels)
        return to_single_map(attention, kind), attention
    (pair,) = _model_inputs([output])
    lookups, recorded = record_lookups(model, pair, *sides, AGGREGATIONS[kind])
    return lookups, Alignment(RECORDED[kind](recorded, maps), *labels)
