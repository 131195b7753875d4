"""Attribution of outputs to their sources, for each kind of map."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from regard.attention.record import record
from regard.attribution.aggregation import (
    AGGREGATIONS,
    Map,
    ValueNorms,
    rolled_out,
    single_map,
)
from regard.attribution.forced_decoding import attended, forced, lookups, readers_of
from regard.attribution.gradients import (
    check_no_maps,
    contributions,
    embeddings,
    log_probabilities_of,
)
from regard.attribution.kinds import Kind
from regard.errors import InputError
from regard.maps.alignment import Alignment
from regard.maps.averages import average_of, shares
from regard.maps.heads import Side
from regard.maps.lookups import Lookups
from regard.nn.encoder_decoder import EncoderDecoder
from regard.shapes import Float

TokenPair = tuple[list[int], list[int]]
"""A source without its end, and the output's tokens, with the end if the model wrote it."""
Sources = Callable[
    [EncoderDecoder, Sequence[TokenPair], Sequence[int] | None], list[Map]
]
"""A map `(target, source)` for each output, aggregated from the model's maps with these numbers; None for all."""


def by_weights(
    model: EncoderDecoder,
    outputs: Sequence[TokenPair],
    maps: Sequence[int] | None = None,
) -> list[Map]:
    """The mean of the weights. Raises ValueError as `attended` does, InputError for a number without a map."""
    return [_mean(each, maps) for each in attended(model, _pairs(outputs))]


def by_norms(
    model: EncoderDecoder,
    outputs: Sequence[TokenPair],
    maps: Sequence[int] | None = None,
) -> list[Map]:
    """The mean of the value norms as shares of each row. Raises as `by_weights` does."""
    return [
        _mean_shares(each, maps)
        for each in attended(model, _pairs(outputs), ValueNorms(model))
    ]


@torch.no_grad()
def by_rollout(
    model: EncoderDecoder,
    outputs: Sequence[TokenPair],
    maps: Sequence[int] | None = None,
) -> list[Map]:
    """The mean of the weights on the encoder's states times the rollout of the encoder, which gives the share of
    each input in these states. Raises as `by_weights` does, and InputError for an encoder without layers of
    self-attention."""
    if model.encoder.self_attention is None:
        raise InputError(
            "a rollout needs self-attention layers with residuals, which this run's encoder lacks; use "
            "weights, norms or gradient"
        )
    names = (
        _names("encoder", model.encoder.self_attention),
        _names("decoder", readers_of(model)),
    )
    found = []
    for pair in _pairs(outputs):
        _, recorded = forced(model, [pair], record(model, only=[*names[0], *names[1]]))
        layers = [
            weights for name, weights in recorded.items() if name.startswith("encoder.")
        ]
        read = recorded.without(
            *(name for name in recorded if name.startswith("encoder."))
        )
        found.append(_mean(read.together()[0].cpu(), maps) @ rolled_out(layers))
    return found


def by_gradient(
    model: EncoderDecoder,
    outputs: Sequence[TokenPair],
    maps: Sequence[int] | None = None,
) -> list[Map]:
    """The shares of gradient x input in the log-probability of each token. Raises InputError if maps are chosen."""
    check_no_maps(maps)
    return [
        shares(gradient_of(model, *each).double().cpu().numpy()) for each in outputs
    ]


def gradient_of(
    model: EncoderDecoder, source: list[int], written: list[int]
) -> Float[Tensor, "target source"]:
    """Gradient x input at each source token, for the log-probability of each written token given those before it."""
    batch = model.collate([(source, written[:-1])]).to(next(model.parameters()).device)

    def scores() -> Tensor:
        return log_probabilities_of(
            model(batch.source, batch.source_lengths, batch.target_in)[0], written
        )

    found = contributions(embeddings(model.encoder), scores)
    return torch.stack(
        [each.amounts[:, 0] for each in found if each.embedded is batch.source]
    ).sum(0)


def _pairs(outputs: Sequence[TokenPair]) -> list[tuple[list[int], list[int]]]:
    """The model's inputs for these outputs: the last token is not read."""
    return [(source, written[:-1]) for source, written in outputs]


def _names(side: str, names: str | tuple[str, ...]) -> list[str]:
    """Names within the model of one side's modules. The recorder names a module `x.attend` by `x`."""
    full = [
        f"{side}.{name}" for name in ((names,) if isinstance(names, str) else names)
    ]
    return [*full, *(name.removesuffix(".attend") for name in full)]


def _mean(weights: Tensor, maps: Sequence[int] | None) -> Map:
    return average_of(weights.numpy(), maps)


def _mean_shares(norms: Tensor, maps: Sequence[int] | None) -> Map:
    return shares(average_of(norms.double().numpy(), maps))


SOURCES: dict[Kind, Sources] = {
    "weights": by_weights,
    "gradient": by_gradient,
    "norms": by_norms,
    "rollout": by_rollout,
}
RECORDED: dict[Kind, Callable[[Tensor, Sequence[int] | None], Map]] = {
    "weights": _mean,
    "norms": _mean_shares,
}
"""The kinds with a map per layer and head, and the functions that aggregate them."""


def attribute_cross_attention(
    model: EncoderDecoder,
    output: TokenPair,
    sides: tuple[Side, Side],
    kind: Kind,
    maps: Sequence[int] | None = None,
) -> tuple[Lookups, Alignment]:
    """The attribution of one output: every layer and head, if the kind has them, and one aggregated map. The sides are
    the source with its end and the written tokens. Raises as the functions of `SOURCES` do."""
    labels = sides[0].pieces, sides[1].pieces
    if kind not in RECORDED:
        (found,) = SOURCES[kind](model, [output], maps)
        attention = Alignment(found, *labels)
        return single_map(attention, kind), attention
    every, weights = lookups(model, _pairs([output])[0], *sides, AGGREGATIONS[kind])
    return every, Alignment(RECORDED[kind](weights, maps), *labels)
