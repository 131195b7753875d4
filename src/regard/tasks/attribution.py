"""A prediction and what it depends on: every layer and head, and the run's own picture of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from regard.maps.alignment import Alignment
from regard.maps.document import DocumentWeights
from regard.maps.heads import HeadMaps
from regard.maps.lookups import Lookups
from regard.tasks.prediction import Prediction

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Attribution:
    """A prediction and what it depends on.

    prediction: what the run predicts.
    title: the heading of its picture.
    lookups: every layer and head, for a page to explore; several where the model has several roles or tapes.
    weights: the one map of the chosen layers and heads, where the run has one, for a matrix or a shaded document.
    heads: the maps that views of heads draw (`pictures.views`); None where a model has no heads.
    draw: the run's own figure under a title; None where it is the matrix or document of `weights`.
    """

    prediction: Prediction
    title: str
    lookups: tuple[Lookups, ...]
    weights: Alignment | DocumentWeights | None = None
    heads: HeadMaps | None = None
    draw: "Callable[[str], Figure] | None" = None
