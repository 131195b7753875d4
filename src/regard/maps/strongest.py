"""The source positions with most weight, where a source is much longer than what is written from it."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from regard.maps.alignment import Alignment

LONG, TIMES = 64, 4
"""A source is shortened if it has more than `LONG` positions and more than `TIMES` as many as the target."""
SHOWN = 30
"""The most source positions of a shortened map, beside the columns that stand for others."""
OMITTED = "…"
"""The label of a column in place of source positions that are left out."""


@dataclass(frozen=True)
class Strongest:
    """A map of fewer source positions.

    alignment: its weights; a column in place of positions that are left out has none.
    gaps: the numbers of these columns.
    note: what is shown, in a line.
    """

    alignment: Alignment
    gaps: tuple[int, ...]
    note: str


def is_long(alignment: Alignment) -> bool:
    """Whether the source of a map is so long that only its strongest positions are drawn."""
    targets, sources = alignment.weights.shape
    return sources > max(LONG, TIMES * targets)


def strongest(alignment: Alignment, shown: int = SHOWN) -> Strongest:
    """The source positions with the largest weight of any target, each between its neighbours, in their order."""
    kept = _kept(alignment.weights, shown)
    columns: list[int | None] = []
    for place in np.flatnonzero(kept).tolist():
        if place and not kept[place - 1]:
            columns.append(None)
        columns.append(place)
    if kept.size and not kept[-1]:
        columns.append(None)
    gaps = tuple(number for number, place in enumerate(columns) if place is None)
    places = [0 if place is None else place for place in columns]
    weights = alignment.weights[:, places].copy()
    weights[:, list(gaps)] = 0.0
    labels = tuple(
        OMITTED if place is None else alignment.source[place] for place in columns
    )
    whole, left = alignment.weights.sum(), alignment.weights[:, ~kept].sum()
    note = f"{kept.sum()} of {kept.size} source tokens, those with most weight and their neighbours; "
    note += f"{OMITTED} stands for others, which have {100 * left / (whole or 1.0):.0f} % of the weight"
    return Strongest(Alignment(weights, labels, alignment.target), gaps, note)


def _kept(
    weights: Float[np.ndarray, "target source"], shown: int
) -> Bool[np.ndarray, " source"]:
    """The positions with the largest weight and their neighbours, as many as fit."""
    kept = np.zeros(weights.shape[1], dtype=bool)
    for place in np.argsort(-weights.max(0, initial=0.0), kind="stable"):
        wider = kept.copy()
        wider[max(0, place - 1) : place + 2] = True
        if wider.sum() > shown:
            break
        kept = wider
    return kept
