"""Recorded maps as the one that is shown."""

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

    A value of norm 0 is read without effect, whatever its weight; the weights alone do not say so.
    """

    def __init__(self, model: nn.Module):
        self.heads = {id(each.attend): each for each in model.modules() if isinstance(each, MultiHead)}

    def __call__(self, module: nn.Module, weights: Tensor, value: Tensor) -> Tensor:
        """Weights `(*batch, query, key)` of values `(*batch, key, value_width)` -> norms `(*batch, query, key)`."""
        heads = self.heads.get(id(module))
        written = value if heads is None else heads.written(value)
        return weights * written.norm(dim=-1)[..., None, :]


@dataclass(frozen=True)
class Joining:
    """measure: what is recorded of a model. joined: of the first row of what was recorded one map, or of the maps of
    those numbers, layer x heads + head; None: all. Raises InputError for maps that cannot be joined so. lookups: what
    was recorded, layer by layer and head by head, as it is seen."""

    measure: Callable[[nn.Module], Measure | None]
    joined: Callable[[Maps, Sequence[int] | None], Map]
    lookups: Callable[[Lookups], Lookups] = lambda lookups: lookups


def mean(found: Maps, numbers: Sequence[int] | None) -> Map:
    """The mean of the maps. Raises InputError for a number that no map has."""
    return average_of(found.together()[0].double().cpu().numpy(), numbers)


def mean_shares(found: Maps, numbers: Sequence[int] | None) -> Map:
    """The shares in the mean of the maps: norms are in the unit of what is written, in which all maps are alike."""
    return shares(mean(found, numbers))


def as_norms(norms: Lookups) -> Lookups:
    """Norms as they are, which no click can work out."""
    return replace(norms, breakdown=None, kind="norms", amounts=True)


def rollout_of(found: Maps, numbers: Sequence[int] | None = None) -> Map:
    """The layers' maps rolled out. Raises InputError as `rolled_out`, and where some are chosen."""
    if numbers is not None:
        raise InputError("a map is chosen, but a rollout is of all layers and heads; choose none")
    return rolled_out([*found.values()])


def rolled_out(maps: Sequence[Tensor]) -> Map:
    """The rollout of the first row of layers' maps `(batch, head, query, key)`. Raises InputError for maps that are no
    layers of self-attention."""
    layers = [each[0].double().cpu().numpy() for each in maps]
    if any(each.ndim != 3 or each.shape[1] != each.shape[2] for each in layers):
        raise InputError(
            "a rollout is of layers of self-attention with residuals, and this run's model is not made of them; use "
            "weights, norms or gradient"
        )
    return rollout(layers)


JOININGS: dict[Kind, Joining] = {
    "weights": Joining(lambda model: None, mean),
    "norms": Joining(ValueNorms, mean_shares, as_norms),
    "rollout": Joining(lambda model: None, rollout_of),
}
"""Of the kinds that are made of recorded maps."""


def alone(attention: Alignment, kind: Kind) -> Lookups:
    """One map of its kind, where there is not one a layer and head."""
    return replace(of_alignment(attention, name=kind), kind=kind, layers=(kind,), verbs=VERBS.get(kind, READS))
