"""Attribution by attention: what layers and heads read, of a text itself or of its source."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import get_args

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.heads import MultiHead
from regard.attention.record import (
    Maps,
    Measure,
    ReportsWeights,
    match_modules,
    record,
)
from regard.attention.transformers import attention_kind
from regard.attribution.effects import Edges, choose_cuts, measure_effects
from regard.attribution.gradients import (
    compute_contributions,
    find_embeddings,
    select_log_probabilities,
)
from regard.attribution.kinds import (
    GRADIENTS,
    KIND_VERBS,
    KINDS_WITH_UNIT,
    ROLES,
    WHOLE_MODEL,
    Kind,
    Role,
)
from regard.data.batches import PairBatch
from regard.errors import InputError
from regard.maps.alignment import Alignment, Side
from regard.maps.lookups import ATTENDS_TO, Lookups, lookups_from_alignment
from regard.maps.reductions import (
    GRADIENT,
    ROLLOUT,
    Numbers,
    average_maps,
    refuse_maps,
    rollout,
    shares,
)
from regard.nn.decoders import EncoderDecoder
from regard.shapes import Float
from regard.work import checkpoint

Map = Float[np.ndarray, "_target _source"]
Names = str | tuple[str, ...]
"""The modules that attend, as patterns for `record`."""
Attributed = tuple[Lookups, Alignment]
"""The lookups of every layer and head, if a kind has them, and one aggregated map."""
LAYERED: tuple[Kind, ...] = get_args(Kind)
"""Kinds for layers of self-attention with residuals."""
PLAIN: tuple[Kind, ...] = ("weights", *GRADIENTS, "norms", "effect")
"""Kinds for other lookups."""
RETURNED: tuple[Kind, ...] = ("weights", *GRADIENTS, "rollout")
"""Kinds for models of transformers, which return weights without values."""
GRADIENT_ONLY: tuple[Kind, ...] = (*GRADIENTS,)
"""Kinds for models without attention."""


def source_kinds(model: EncoderDecoder) -> tuple[Kind, ...]:
    """Return the kinds of maps from an output to its source."""
    if model.decoder.source_attention is None:
        return GRADIENT_ONLY
    if isinstance(model.encoder, ReportsWeights):
        return RETURNED
    return PLAIN if model.encoder.self_attention is None else LAYERED


def text_kinds(model: nn.Module, names: Names | None) -> tuple[Kind, ...]:
    """Return the kinds of maps between the tokens of one text."""
    if names is None:
        return GRADIENT_ONLY
    if isinstance(model, ReportsWeights):
        ways = {attention_kind(type(module)) for module in model.modules()}
        can_change = "open" in ways and "closed" not in ways
        return (*RETURNED, "effect") if can_change else RETURNED
    matches = match_modules(model, names)
    heads = [module for module in model.modules() if isinstance(module, MultiHead)]
    return LAYERED if any(id(module) in matches for module in heads) else PLAIN


def check_kinds(kinds: Sequence[Kind], supported: Sequence[Kind]) -> None:
    """Check that a model supports kinds of maps.

    Raises:
        InputError: It lacks one.
    """
    for kind in kinds:
        if kind not in supported:
            raise InputError(
                f"this run's model has no {kind}; it has {', '.join(supported)}"
            )


class ValueNorms:
    """A measure of `record`: the norm of each weighted value.

    It is ||a_ti v_i||, and within a `MultiHead` ||a_ti f(v_i)|| with f(v) = W_o^h
    (W_v^h v + b_v^h), for each head (Kobayashi et al. 2020, 2004.10102, section 3). A
    value of norm 0 has no effect, whatever its weight; the weights alone do not show
    this.

    Args:
        model: The model that is recorded.
    """

    def __init__(self, model: nn.Module):
        heads = [item for item in model.modules() if isinstance(item, MultiHead)]
        self.heads = {id(item.attend): item for item in heads}

    def __call__(self, module: nn.Module, weights: Tensor, value: Tensor) -> Tensor:
        """Compute the norms `(*batch, query, key)`.

        Args:
            module: The module that attends.
            weights: `(*batch, query, key)`.
            value: `(*batch, key, value_width)`.
        """
        if heads := self.heads.get(id(module)):
            value = heads.transform_values(value)
        return weights * value.norm(dim=-1)[..., None, :]


def choose_measure(model: nn.Module, kind: Kind) -> Measure | None:
    """Return the measure of `record` for a kind; None records the weights."""
    return ValueNorms(model) if kind == "norms" else None


NO_LAYERS = (
    "a rollout needs self-attention layers with residuals, which this run's model "
    "lacks; use weights, norms or gradient"
)


def aggregate_maps(maps: Maps, kind: Kind, numbers: Numbers = None) -> Map:
    """Aggregate the first row of recorded maps.

    Weights and norms are averaged; norms, which share one unit, become shares.

    Args:
        kind: Their kind.
        numbers: The numbers of the maps, layer x heads + head. Default: all.

    Raises:
        InputError: There is no map of a number, or as `roll_out`, and if some maps are
            chosen for a rollout.
    """
    if kind == "rollout":
        refuse_maps(numbers, ROLLOUT)
        return roll_out([*maps.values()])
    stacked = maps.stack_heads()[0].double()
    mean = average_maps(stacked.cpu().numpy(), numbers)
    return shares(mean) if kind == "norms" else mean


def roll_out(maps: Sequence[Tensor]) -> Map:
    """Roll out the first row of the layers' maps `(batch, head, query, key)`.

    Raises:
        InputError: They are not layers of self-attention.
    """
    if any(item.ndim != 4 or item.shape[2] != item.shape[3] for item in maps):
        raise InputError(NO_LAYERS)
    return rollout([item[0].double().cpu().numpy() for item in maps])


def build_lookups(maps: Maps, kind: Kind, source: Side, target: Side) -> Lookups:
    """Return the lookups of every layer and head of recorded maps."""
    lookups = maps.lookups(source.pieces, target.pieces)
    has_unit = kind in KINDS_WITH_UNIT
    return replace(
        lookups,
        kind=kind,
        amounts=has_unit,
        breakdown=None if has_unit else maps.breakdown(lookups.weights),
        source_words=source.words,
        target_words=target.words,
    )


def to_single_map(attention: Alignment, kind: Kind) -> Lookups:
    """Return the lookups of a kind that has one map for all layers and heads."""
    verbs = KIND_VERBS.get(kind, ATTENDS_TO)
    lookups = lookups_from_alignment(attention, name=kind)
    return replace(lookups, kind=kind, layers=(kind,), verbs=verbs)


BATCH = 64
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
    results: dict[int, Tensor] = {}
    names = source_attention_names(model)
    count = len(pairs)
    order = sorted(range(count), key=lambda index: len(pairs[index][1]))
    for first in range(0, count, BATCH):
        checkpoint()
        indices = order[first : first + BATCH]
        group = [pairs[index] for index in indices]
        recording = record(model.decoder, only=names, measure=measure)
        batch, maps = run_forced(model, group, recording)
        targets = batch.target_lengths.tolist()
        sources = batch.source_lengths.tolist()
        rows = zip(indices, maps.stack_heads(), targets, sources, strict=True)
        for index, weights, target, source in rows:
            results[index] = weights[:, :target, :source].cpu()
    return [results[index] for index in range(count)]


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
        model.features(batch.source, batch.source_lengths, batch.target_in)
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
    cut: str = "position",
) -> Attributed:
    """Attribute one output to its source.

    A rollout multiplies the mean weights on the encoder's states by the encoder's
    rollout, the share of each input in these states.

    Args:
        output: The source and the output.
        sides: The source with its end, and the output's tokens.
        kind: The kind of the maps.
        maps: The numbers of the maps to aggregate. Default: all.
        cut: What an effect cuts.

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
    if kind in GRADIENTS:
        refuse_maps(maps, GRADIENT)
        gradient = compute_input_gradient(model, *output, steps=GRADIENTS[kind])
        amounts = gradient.double().cpu().numpy()
        attention = Alignment(shares(amounts), *labels)
        return to_single_map(attention, kind), attention
    names = source_attention_names(model)
    if kind == "effect":
        effects = measure_source_effects(model, output, sides, maps, cut)
        return map_effects(effects, *labels)
    if kind == "rollout":
        if model.encoder.self_attention is None:
            raise InputError(NO_LAYERS)
        encoder = full_names("encoder", model.encoder.self_attention)
        decoder = full_names("decoder", names)
        recording = record(model, only=[*encoder, *decoder])
        _, recorded = run_forced(model, [pair], recording)
        encoded = [name for name in recorded if name.startswith("encoder.")]
        layers = roll_out([recorded[name] for name in encoded])
        cross = recorded.exclude(*encoded).stack_heads()[0]
        mean = average_maps(cross.cpu().numpy(), maps)
        attention = Alignment(mean @ layers, *labels)
        return to_single_map(attention, kind), attention
    measure = choose_measure(model, kind)
    recording = record(model.decoder, names, measure=measure, breakdown=True)
    _, recorded = run_forced(model, [pair], recording)
    joined = aggregate_maps(recorded, kind, maps)
    attention = Alignment(joined, *labels)
    lookups = build_lookups(recorded, kind, *sides)
    return replace(lookups, name=ROLES["cross"]), attention


def measure_source_effects(
    model: EncoderDecoder,
    output: TokenPair,
    sides: tuple[Side, Side],
    maps: Numbers = None,
    cut: str = "position",
) -> Map:
    """Measure what each token of an output loses without a position of its source.

    Arguments and errors as for `attribute_cross_attention`.
    """
    score = partial(score_output, model, output)
    targets, sources = len(output[1]), len(sides[0].pieces)
    if cut == "edge":
        cuts = [Edges([row], [key]) for row in range(targets) for key in range(sources)]
    else:
        cuts = choose_cuts(cut, sides[0])
    names = full_names("decoder", source_attention_names(model))
    effects = measure_effects(model, names, score, cuts, maps, BATCH)
    if cut == "edge":
        rows = effects.reshape(targets, targets, sources)
        indices = np.arange(targets)
        effects = rows[indices, indices]
    return effects


def score_output(
    model: EncoderDecoder, output: TokenPair, copies: int = 1
) -> Float[Tensor, "copy target"]:
    """Return the log-probabilities of an output's tokens in copies of one pair."""
    source, target = output
    pairs = [(source, target[:-1])] * copies
    batch = model.collate(pairs).to(next(model.parameters()).device)
    logits = model(batch.source, batch.source_lengths, batch.target_in)
    return torch.stack([select_log_probabilities(row, target) for row in logits])


def map_effects(
    effects: Map, source: Sequence[str], target: Sequence[str]
) -> Attributed:
    """Return effects as signed lookups, and as one map in which gains are 0."""
    return map_signed(effects, source, target, "effect", KIND_VERBS["effect"])


def map_signed(
    amounts: Map,
    source: Sequence[str],
    target: Sequence[str],
    kind: str,
    verbs: tuple[str, str],
) -> Attributed:
    """Return amounts of any sign as lookups, and as one map with 0 for negative ones."""
    lookups = Lookups(
        amounts[None, None],
        tuple(source),
        tuple(target),
        name=kind,
        layers=(kind,),
        verbs=verbs,
        kind=kind,
        amounts=True,
        signed=True,
    )
    return lookups, Alignment(np.maximum(amounts, 0.0), tuple(source), tuple(target))


def full_names(side: str, names: Names) -> list[str]:
    """Return names within the model of one side's modules.

    The recorder names a module `x.attend` by `x`.
    """
    if isinstance(names, str):
        names = (names,)
    full = [f"{side}.{name}" for name in names]
    return [*full, *(name.removesuffix(".attend") for name in full)]


def compute_input_gradient(
    model: EncoderDecoder, source: list[int], target: list[int], steps: int = 1
) -> Float[Tensor, "target source"]:
    """Compute gradient x input of each source token for each target token's score.

    With `steps` it is integrated gradients.

    The score is the log-probability of the target token given those before it.
    """
    batch = model.collate([(source, target[:-1])]).to(next(model.parameters()).device)

    def scores() -> Tensor:
        logits = model(batch.source, batch.source_lengths, batch.target_in)[0]
        return select_log_probabilities(logits, target)

    embeddings = find_embeddings(model.encoder)
    contributions = compute_contributions(embeddings, scores, steps, first_only=True)
    if isinstance(model.encoder, ReportsWeights):
        return contributions[0].amounts[:, 0, model.encoder.skip_count :]
    of_source = [item for item in contributions if item.embedded is batch.source]
    amounts = [item.amounts[:, 0] for item in of_source]
    return torch.stack(amounts).sum(0)


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


def attribute_effects(
    model: nn.Module,
    names: str | Sequence[str],
    text: Side,
    targets: Sequence[str],
    score: Callable[[], Float[Tensor, " target"]],
    maps: Numbers = None,
    cut: str = "position",
    before: str = "",
) -> Attributed:
    """Attribute scores to the tokens of one text by cutting attention to them.

    Args:
        names: The modules to change, as patterns for `record`.

    Raises:
        InputError: Single edges are to be cut, or as `measure_effects`.
    """
    cuts = choose_cuts(cut, text)
    effects = measure_effects(model, names, lambda _: score()[None], cuts, maps)
    keys = text.prepend(before, effects.shape[1] - len(text.pieces)).pieces
    effects = np.pad(effects, ((0, 0), (0, len(keys) - effects.shape[1])))
    return map_effects(effects, keys, targets)


def attribute_gradient(
    model: nn.Module,
    tokens: Sequence[str],
    targets: Sequence[str],
    scores: Callable[[], Float[Tensor, " target"]],
    maps: Numbers = None,
    steps: int = 1,
) -> Alignment:
    """Attribute scores to the tokens of one text by gradients, as shares.

    The model embeds the text at its first call.

    Raises:
        InputError: Maps are chosen.
    """
    refuse_maps(maps, GRADIENT)
    contribution = compute_contributions(find_embeddings(model), scores, steps)[0]
    return Alignment(contribution.shares(), tuple(tokens), tuple(targets))


def attribute_self_attention(
    model: EncoderDecoder,
    role: Role,
    pair: TokenPair,
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
    if kind in WHOLE_MODEL:
        raise InputError(
            f"{kind} maps are of the whole model, not of its {ROLES[role]}; choose "
            "weights or norms"
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
