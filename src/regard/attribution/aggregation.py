"""Kinds of maps that a model supports, and how recorded maps become one."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.heads import MultiHead
from regard.attention.record import Maps, Measure, ReportsWeights, match_modules
from regard.attribution.kinds import KIND_VERBS, KINDS_WITH_UNIT, Kind
from regard.errors import InputError
from regard.maps.alignment import Alignment, Side
from regard.maps.lookups import ATTENDS_TO, Lookups, lookups_from_alignment
from regard.maps.reductions import Numbers, average_maps, rollout, shares
from regard.nn.decoders import EncoderDecoder

Map = Float[np.ndarray, "_target _source"]
Names = str | tuple[str, ...]
"""The modules that attend, as patterns for `record`."""
Attributed = tuple[Lookups, Alignment]
"""The lookups of every layer and head, if a kind has them, and one aggregated map."""
LAYERED: tuple[Kind, ...] = ("weights", "gradient", "norms", "rollout")
"""Kinds for layers of self-attention with residuals."""
PLAIN: tuple[Kind, ...] = ("weights", "gradient", "norms")
"""Kinds for other lookups."""
RETURNED: tuple[Kind, ...] = ("weights", "gradient", "rollout")
"""Kinds for models of transformers, which return weights without values."""
GRADIENT_ONLY: tuple[Kind, ...] = ("gradient",)
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
        return RETURNED
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
        if numbers is not None:
            raise InputError("a rollout combines all layers and heads; choose no map")
        return roll_out([*maps.values()])
    mean = average_maps(maps.stack_heads()[0].double().cpu().numpy(), numbers)
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
