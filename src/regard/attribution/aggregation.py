"""Aggregate the recorded maps of all layers and heads into one map."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.heads import MultiHead
from regard.attention.record import Maps, Measure
from regard.attribution.kinds import VERBS, Kind
from regard.errors import InputError
from regard.maps.alignment import Alignment
from regard.maps.averages import average_of, shares
from regard.maps.lookups import READS, Lookups, of_alignment
from regard.maps.rollout import rollout

Map = Float[np.ndarray, "_target _source"]


class ValueNorms:
    """||a_ti v_i||, and within a `MultiHead` ||a_ti f(v_i)|| with f(v) = W_o^h (W_v^h v + b_v^h), for each head
    (Kobayashi et al. 2020, 2004.10102, section 3): a `measure` for recording `model`.

    A value of norm 0 has no effect, whatever its weight; the weights alone do not show this.
    """

    def __init__(self, model: nn.Module):
        self.heads = {
            id(each.attend): each
            for each in model.modules()
            if isinstance(each, MultiHead)
        }

    def __call__(self, module: nn.Module, weights: Tensor, value: Tensor) -> Tensor:
        """Weights `(*batch, query, key)` of values `(*batch, key, value_width)` -> norms `(*batch, query, key)`."""
        heads = self.heads.get(id(module))
        transformed = value if heads is None else heads.transformed(value)
        return weights * transformed.norm(dim=-1)[..., None, :]


@dataclass(frozen=True)
class Aggregation:
    """How maps of one kind are recorded and aggregated.

    measure: from a model to the measure to record, or None for the weights.
    aggregate: aggregate the first row of the recorded maps, or of the maps with these numbers, layer x heads + head
        (None: all). Raises InputError for maps that do not allow it.
    lookups: convert the recorded maps of all layers and heads for display.
    """

    measure: Callable[[nn.Module], Measure | None]
    aggregate: Callable[[Maps, Sequence[int] | None], Map]
    lookups: Callable[[Lookups], Lookups] = lambda lookups: lookups


def mean(found: Maps, numbers: Sequence[int] | None) -> Map:
    """The mean of the maps. Raises InputError for a number without a map."""
    return average_of(found.together()[0].double().cpu().numpy(), numbers)


def mean_shares(found: Maps, numbers: Sequence[int] | None) -> Map:
    """The mean of the maps as shares of each row. Norms share one unit, so they are averaged before the division."""
    return shares(mean(found, numbers))


def as_norms(norms: Lookups) -> Lookups:
    """Lookups of norms, without a breakdown."""
    return replace(norms, breakdown=None, kind="norms", amounts=True)


def rollout_of(found: Maps, numbers: Sequence[int] | None = None) -> Map:
    """The rollout of the layers' maps. Raises InputError as `rolled_out` does, and if some maps are chosen."""
    if numbers is not None:
        raise InputError("a rollout combines all layers and heads; choose no map")
    return rolled_out([*found.values()])


def rolled_out(maps: Sequence[Tensor]) -> Map:
    """The rollout of the first row of the layers' maps `(batch, head, query, key)`. Raises InputError for maps that are
    not layers of self-attention."""
    layers = [each[0].double().cpu().numpy() for each in maps]
    if any(each.ndim != 3 or each.shape[1] != each.shape[2] for each in layers):
        raise InputError(
            "a rollout needs self-attention layers with residuals, which this run's model lacks; use "
            "weights, norms or gradient"
        )
    return rollout(layers)


AGGREGATIONS: dict[Kind, Aggregation] = {
    "weights": Aggregation(lambda model: None, mean),
    "norms": Aggregation(ValueNorms, mean_shares, as_norms),
    "rollout": Aggregation(lambda model: None, rollout_of),
}
"""The kinds that are computed from recorded maps."""


def single_map(attention: Alignment, kind: Kind) -> Lookups:
    """A single map of its kind, in place of one per layer and head."""
    return replace(
        of_alignment(attention, name=kind),
        kind=kind,
        layers=(kind,),
        verbs=VERBS.get(kind, READS),
    )
