"""Scores by name, for configurations. Other packages add theirs under the entry points `regard.scores`.

Each name stands for a function of the width of queries and keys and of the largest number of keys.
"""

from typing import Annotated

from regard.attention.scores import (
    Additive,
    Cosine,
    Distance,
    Dot,
    General,
    LearnedSharpness,
    Location,
    ScaledDot,
    Score,
)
from regard.config.registry import RegisteredName, Registry

SCORES = Registry(
    "regard.models",
    {
        "dot": "scores:dot",
        "general": "scores:general",
        "concat": "scores:concat",
        "location": "scores:location",
        "scaled-dot": "scores:scaled_dot",
        "cosine": "scores:cosine",
        "distance": "scores:distance",
    },
    group="regard.scores",
)
ScoreName = Annotated[str, RegisteredName(SCORES)]
ContentScoreName = Annotated[str, RegisteredName(SCORES, without=("location",))]
"""Scores that depend on the keys."""


def dot(width: int, longest: int) -> Score:
    """q . k."""
    return Dot()


def general(width: int, longest: int) -> Score:
    """q^T W k."""
    return General(width, width)


def concat(width: int, longest: int) -> Score:
    """v^T tanh(W q + U k), with the queries' width inside."""
    return Additive(width, width, width)


def location(width: int, longest: int) -> Score:
    """(W q)_j, whatever the keys are."""
    return Location(width, longest)


def scaled_dot(width: int, longest: int) -> Score:
    """q . k / sqrt(width)."""
    return ScaledDot()


def cosine(width: int, longest: int) -> Score:
    """cos(q, k) times a learned sharpness, which starts at sqrt(width)."""
    return Cosine(LearnedSharpness(width**0.5))


def distance(width: int, longest: int) -> Score:
    """-|q - k|^2 in units of sqrt(width)."""
    return Distance(width**0.5)
