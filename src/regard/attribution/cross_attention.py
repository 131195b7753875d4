"""Attribution of outputs to their sources, recorded by forced decoding."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

import torch
from torch import Tensor

from regard.attention.record import (
    Maps,
    Measure,
    ReportsWeights,
    record,
)
from regard.attribution.aggregation import (
    NO_LAYERS,
    Attributed,
    Map,
    Names,
    aggregate_maps,
    build_lookups,
    choose_measure,
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
from regard.maps.alignment import Alignment, Side
from regard.maps.reductions import Numbers, average_maps, shares
from regard.nn.decoders import EncoderDecoder
from regard.shapes import Float
from regard.work import checkpoint

BATCH = 32
"""Pairs in one batch."""
TokenPair = tuple[list[int], list[int]]
"""A source without its end, and the output's tokens, with the end if it has one."""
Pairs = Sequence[TokenPair]


@torch.no_grad()
def record_source_attention(
    model: EncoderDecoder, pairs: Pairs, measure: Measure | None = None
) -> list[Tensor]:
    """Record the weights on the source with which the model writes each output.

    Args:
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
    model: EncoderDecoder, outputs: Pairs, maps: Numbers = None
) -> list[Map]:
    """Average the weights with which the model writes each output.

    Raises:
        ValueError: As `record_source_attention`.
        InputError: There is no map of a number.
    """
    # the last token is not read
    pairs = [(source, target[:-1]) for source, target in outputs]
    weights = record_source_attention(model, pairs)
    return [average_maps(item.numpy(), maps) for item in weights]


@torch.no_grad()
def attribute_cross_attention(
    model: EncoderDecoder,
    output: TokenPair,
    sides: tuple[Side, Side],
    kind: Kind,
    maps: Numbers = None,
) -> Attributed:
    """Attribute one output to its source.

    A rollout multiplies the mean weights on the encoder's states by the encoder's
    rollout, the share of each input in these states.

    Args:
        output: The source and the output.
        sides: The source with its end, and the output's tokens.
        kind: The kind of the maps.
        maps: The numbers of the maps to aggregate. Default: all.

    Returns:
        The lookups of every layer and head, if the kind has them, and one aggregated
        map.

    Raises:
        ValueError: The model does not attend to its source.
        InputError: There is no map of a number, maps are chosen for a gradient, or the
            encoder has no layers of self-attention for a rollout.
    """
    labels = sides[0].pieces, sides[1].pieces
    pair = output[0], output[1][:-1]
    if kind == "gradient":
        check_no_maps(maps)
        gradient = compute_input_gradient(model, *output)
        attention = Alignment(shares(gradient.double().cpu().numpy()), *labels)
        return to_single_map(attention, kind), attention
    names = source_attention_names(model)
    if kind == "rollout":
        if model.encoder.self_attention is None:
            raise InputError(NO_LAYERS)
        encoder = _full_names("encoder", model.encoder.self_attention)
        recording = record(model, only=[*encoder, *_full_names("decoder", names)])
        _, recorded = run_forced(model, [pair], recording)
        encoded = [name for name in recorded if name.startswith("encoder.")]
        cross = recorded.exclude(*encoded).stack_heads()[0].cpu()
        layers = roll_out([recorded[name] for name in encoded])
        attention = Alignment(average_maps(cross.numpy(), maps) @ layers, *labels)
        return to_single_map(attention, kind), attention
    measure = choose_measure(model, kind)
    recording = record(model.decoder, names, measure=measure, breakdown=True)
    _, recorded = run_forced(model, [pair], recording)
    attention = Alignment(aggregate_maps(recorded, kind, maps), *labels)
    lookups = build_lookups(recorded, kind, *sides)
    return replace(lookups, name=ROLES["cross"]), attention


def _full_names(side: str, names: Names) -> list[str]:
    """Return names within the model of one side's modules.

    The recorder names a module `x.attend` by `x`.
    """
    if isinstance(names, str):
        names = (names,)
    full = [f"{side}.{name}" for name in names]
    return [*full, *(name.removesuffix(".attend") for name in full)]


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
        return contributions[0].amounts[:, 0, model.encoder.skip_count :]
    amounts = [
        item.amounts[:, 0] for item in contributions if item.embedded is batch.source
    ]
    return torch.stack(amounts).sum(0)
