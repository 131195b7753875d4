"""Kinds of maps that a model supports, and how recorded maps become one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.heads import MultiHead
from regard.attention.record import Maps, Measure, ReportsWeights, match_modules
from regard.attribution.kinds import KIND_VERBS, Kind
from regard.errors import InputError
from regard.maps.alignment import Alignment
from regard.maps.lookups import ATTENDS_TO, Lookups, lookups_from_alignment
from regard.maps.reductions import average_maps, rollout, shares
from regard.nn.encoder_decoder import EncoderDecoder

Map = Float[np.ndarray, "_target _source"]
LAYERED: tuple[Kind, ...] = ("weights", "gradient", "norms", "rollout")
"""Kinds for layers of self-attention with residuals."""
PLAIN: tuple[Kind, ...] = ("weights", "gradient", "norms")
"""Kinds for other lookups."""
RETURNED: tuple[Kind, ...] = ("weights", "gradient", "rollout")
"""Kinds for models of transformers, which return weights without values."""
GRADIENT_ONLY: tuple[Kind, ...] = ("gradient",)
"""Kinds for models without attention."""


def supported_kinds(model: EncoderDecoder) -> tuple[Kind, ...]:
    """Return the kinds of maps from an output to its source."""
    if model.decoder.source_attention is None:
        return GRADIENT_ONLY
    if isinstance(model.encoder, ReportsWeights):
        return RETURNED
    return PLAIN if model.encoder.self_attention is None else LAYERED


def supported_text_kinds(
    model: nn.Module, names: str | tuple[str, ...] | None
) -> tuple[Kind, ...]:
    """Return the kinds of maps between the tokens of one text.

    Args:
        model: The model.
        names: The modules that attend, as patterns for `record`.
    """
    if names is None:
        return GRADIENT_ONLY
    if isinstance(model, ReportsWeights):
        return RETURNED
    matches = match_modules(model, names)
    for module in model.modules():
        if isinstance(module, MultiHead) and id(module) in matches:
            return LAYERED
    return PLAIN


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
        self.heads = {
            id(module.attend): module
            for module in model.modules()
            if isinstance(module, MultiHead)
        }

    def __call__(self, module: nn.Module, weights: Tensor, value: Tensor) -> Tensor:
        """Compute the norms `(*batch, query, key)`.

        Args:
            module: The module that attends.
            weights: `(*batch, query, key)`.
            value: `(*batch, key, value_width)`.
        """
        heads = self.heads.get(id(module))
        if heads is not None:
            value = heads.transform_values(value)
        return weights * value.norm(dim=-1)[..., None, :]


@dataclass(frozen=True)
class Aggregation:
    """How maps of one kind are recorded and aggregated.

    Attributes:
        measure: Returns the measure to record of a model, or None for the weights.
        aggregate: Aggregates the first row of the recorded maps, or of those with these
            numbers, layer x heads + head (None: all). Raises InputError for maps that
            do not allow it.
        lookups: Converts the recorded maps of all layers and heads for display.
    """

    measure: Callable[[nn.Module], Measure | None]
    aggregate: Callable[[Maps, Sequence[int] | None], Map]
    lookups: Callable[[Lookups], Lookups] = lambda lookups: lookups


def average_recorded(maps: Maps, numbers: Sequence[int] | None) -> Map:
    """Average the maps.

    Raises:
        InputError: There is no map of a number.
    """
    return average_maps(maps.stack_heads()[0].double().cpu().numpy(), numbers)


def average_shares(maps: Maps, numbers: Sequence[int] | None) -> Map:
    """Average norms, which share one unit, and divide the mean into shares."""
    return shares(average_recorded(maps, numbers))


def to_norms(norms: Lookups) -> Lookups:
    """Return lookups of norms, without a breakdown."""
    return replace(norms, breakdown=None, kind="norms", amounts=True)


def rollout_recorded(maps: Maps, numbers: Sequence[int] | None = None) -> Map:
    """Roll the maps of all layers out.

    Raises:
        InputError: As `roll_out`, and if some maps are chosen.
    """
    if numbers is not None:
        raise InputError("a rollout combines all layers and heads; choose no map")
    return roll_out([*maps.values()])


def roll_out(maps: Sequence[Tensor]) -> Map:
    """Roll out the first row of the layers' maps `(batch, head, query, key)`.

    Raises:
        InputError: They are not layers of self-attention.
    """
    layers = [weights[0].double().cpu().numpy() for weights in maps]
    for weights in layers:
        if weights.ndim != 3 or weights.shape[1] != weights.shape[2]:
            raise InputError(
                "a rollout needs self-attention layers with residuals, which this run's "
                "model lacks; use weights, norms or gradient"
            )
    return rollout(layers)


AGGREGATIONS: dict[Kind, Aggregation] = {
    "weights": Aggregation(lambda model: None, average_recorded),
    "norms": Aggregation(ValueNorms, average_shares, to_norms),
    "rollout": Aggregation(lambda model: None, rollout_recorded),
}
"""The kinds that are computed from recorded maps."""


def to_single_map(attention: Alignment, kind: Kind) -> Lookups:
    """Return the lookups of a kind that has one map for all layers and heads."""
    verbs = KIND_VERBS.get(kind, ATTENDS_TO)
    lookups = lookups_from_alignment(attention, name=kind)
    return replace(lookups, kind=kind, layers=(kind,), verbs=verbs)
