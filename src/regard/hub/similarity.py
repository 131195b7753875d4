"""Why two texts are similar: the cosine of their vectors as a sum over pairs of tokens.

The mean of the states of a text is linear in each, so the cosine of two means is exactly
a sum with one part for each pair of tokens.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.attribution.attention import map_signed
from regard.hub.open_run import open_states
from regard.pictures.canvas import round_up
from regard.pictures.heatmap import heatmap
from regard.shapes import Float
from regard.tasks.attribution import Attribution
from regard.tasks.options import AttributionOptions, TextPrediction
from regard.tasks.run import require_method

VERBS = ("is similar to", "is similar to")


@dataclass(frozen=True, eq=False)
class Similarity(Attribution):
    """The parts of a cosine. `lookups[0].weights` has one for each pair of tokens.

    Attributes:
        cosine: Their sum.
    """

    cosine: float = 0.0


def split_cosine(
    first: Float[Tensor, "first width"], second: Float[Tensor, "second width"]
) -> Float[Tensor, "second first"]:
    """Split the cosine of the means of two texts' states into parts of pairs of tokens.

    part_ji = x_i . y_j / (m n |mean x| |mean y|)
    """
    first, second = first.double(), second.double()
    first = first / len(first) / first.mean(0).norm()
    second = second / len(second) / second.mean(0).norm()
    return second @ first.T


@torch.no_grad()
def similarity(model: Any, first: str, second: str) -> Similarity:
    """Explain the similarity of two texts.

    Args:
        model: A run that embeds texts by the mean of their states, or the folder or name
            of one or of a sentence-transformers model.
        first: A text, along the columns.
        second: The text along the rows.

    Raises:
        InputError: The model does not embed texts, or not by a mean.
    """
    run = open_states(model) if isinstance(model, str | Path) else model
    token_states = require_method(run, "token_states", str(model))
    (source, columns), (target, rows) = map(token_states, (first, second))
    parts = split_cosine(columns, rows)
    cosine = float(parts.sum())
    weights = parts.cpu().numpy()
    lookups, positive = map_signed(weights, source, target, "similarity", VERBS)
    detail = f"the cells sum to the cosine {cosine:.3f}"
    if (weights < 0).any():
        detail += "; negative ones are white"
    return Similarity(
        TextPrediction(f"{cosine:.4f}"),
        f"{first} | {second}",
        (lookups,),
        positive,
        AttributionOptions(),
        draw=lambda title: heatmap(
            positive,
            title=title,
            vmax=round_up(positive.weights),
            sides=("first text", "second text"),
        ),
        detail=detail,
        cosine=cosine,
    )
