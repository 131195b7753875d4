"""Scores: how well each key matches a query. A score has a key side, prepared once per memory, and a query side.

    scores = score(query, score.prepare(key))        (*batch, query, key)

With `heads`, a score with parameters holds one set per head and expects a head axis before (position, width).
"""

from regard.attention.scores.cosine import (
    Content,
    Cosine,
    LearnedSharpness,
    PredictedSharpness,
)
from regard.attention.scores.pairwise import (
    Additive,
    InverseDistance,
    Location,
    SoftCapped,
)
from regard.attention.scores.products import Distance, Dot, General, ScaledDot, TanhDot
from regard.attention.scores.protocol import Product, Score, Sides, TanhSum, weight

__all__ = [
    "Additive",
    "Content",
    "Cosine",
    "Distance",
    "Dot",
    "General",
    "InverseDistance",
    "LearnedSharpness",
    "Location",
    "PredictedSharpness",
    "Product",
    "ScaledDot",
    "Score",
    "Sides",
    "SoftCapped",
    "TanhDot",
    "TanhSum",
    "weight",
]
