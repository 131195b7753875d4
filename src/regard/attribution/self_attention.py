"""Attention between the tokens of one text, also within each side of an encoder-decoder."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.record import record
from regard.attribution.aggregation import (
    Attributed,
    Names,
    aggregate_maps,
    build_lookups,
    choose_measure,
    to_single_map,
)
from regard.attribution.gradients import (
    check_no_maps,
    compute_contributions,
    find_embeddings,
)
from regard.attribution.kinds import ROLES, Kind, Role
from regard.errors import InputError
from regard.maps.alignment import Alignment, Side
from regard.maps.reductions import Numbers
from regard.nn.decoders import EncoderDecoder
from regard.shapes import Float


@torch.no_grad()
def attribute_text(
    model: nn.Module,
    names: Names | None,
    text: Side,
    call: Callable[[], object],
    maps: Numbers = None,
    *,
    kind: Kind = "weights",
    before: str = "",
) -> Attributed:
    """Attribute the tokens of one text to each other.

    Args:
        names: The modules that attend, as patterns for `record`.
        text: The pieces of the text.
        call: Runs the model on the text.
        maps: The numbers of the maps to aggregate, layer x heads + head. Default: all.
        kind: A kind of recorded maps.
        before: The label of a key in front of the first piece.

    Returns:
        The lookups of every layer and head, and one aggregated map.

    Raises:
        InputError: The model has no self-attention, no such map, or no maps for a
            rollout.
    """
    if names is None:
        raise InputError(
            "this part of the run's model is recurrent without attention, so there is "
            "nothing to plot"
        )
    measure = choose_measure(model, kind)
    with record(model, names, measure=measure, breakdown=True) as recorded:
        call()
    joined = aggregate_maps(recorded, kind, maps)
    extra = joined.shape[-1] - len(text.pieces)
    source = text.prepend(before, extra)
    # columns of zeros: a tape has no row for the last piece yet
    count = max(0, -extra)
    joined = np.pad(joined, ((0, 0), (0, count)))
    attention = Alignment(joined, source.pieces, text.pieces)
    if kind == "rollout":
        return to_single_map(attention, kind), attention
    keys = Side.of(source.pieces[: len(source.pieces) - count])
    lookups = build_lookups(recorded, kind, keys, text)
    lookups = replace(
        lookups,
        weights=np.pad(lookups.weights, ((0, 0), (0, 0), (0, 0), (0, count))),
        source=source.pieces,
        source_words=source.words,
        breakdown=lookups.breakdown and lookups.breakdown.pad_sources(count),
    )
    return lookups, attention


def attribute_gradient(
    model: nn.Module,
    tokens: Sequence[str],
    targets: Sequence[str],
    scores: Callable[[], Float[Tensor, " target"]],
    maps: Numbers = None,
) -> Alignment:
    """Attribute scores to the tokens of one text by gradient x input, as shares.

    The model embeds the text at its first call.

    Raises:
        InputError: Maps are chosen.
    """
    check_no_maps(maps)
    contribution = compute_contributions(find_embeddings(model), scores)[0]
    return Alignment(contribution.shares(), tuple(tokens), tuple(targets))


def attribute_self_attention(
    model: EncoderDecoder,
    role: Role,
    pair: tuple[list[int], list[int]],
    texts: tuple[Side, Side],
    maps: Numbers = None,
    kind: Kind = "weights",
) -> Attributed:
    """Attribute the tokens of one side of an encoder-decoder to each other.

    Args:
        model: The model, which reads the output by forced decoding.
        role: The side.
        pair: The source, and the output.
        texts: The inputs of both sides: the source with its end, the output with its
            start.
        maps: The numbers of the maps to aggregate. Default: all.
        kind: The kind of the maps.

    Returns:
        The lookups of every layer and head, and one aggregated map.

    Raises:
        InputError: As `attribute_text`, or the kind is gradient, which belongs to the
            whole model.
    """
    if kind == "gradient":
        raise InputError(
            f"a gradient is of the whole model, not of its {ROLES[role]}; choose weights "
            "or norms"
        )
    batch = model.collate([pair]).to(next(model.parameters()).device)
    part, text = model.encoder, texts[0]
    if role == "decoder":
        part, text = model.decoder, texts[1]

    def call() -> object:
        return model(batch.source, batch.source_lengths, batch.target_in)

    names = part.self_attention
    lookups, attention = attribute_text(
        part,
        names,
        text,
        call,
        maps,
        kind=kind,
    )
    name = f"{ROLES[role]}, {kind}" if kind == "rollout" else ROLES[role]
    return replace(lookups, name=name), attention
