"""The scores that a configuration may name."""

from collections.abc import Callable
from typing import Literal

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

ContentScoreName = Literal["dot", "general", "concat", "scaled-dot", "cosine", "distance"]
"""Those that read the keys."""
ScoreName = Literal["dot", "general", "concat", "location", "scaled-dot", "cosine", "distance"]

SCORES: dict[ScoreName, Callable[[int, int], Score]] = {
    "dot": lambda width, longest: Dot(),
    "general": lambda width, longest: General(width, width),
    "concat": lambda width, longest: Additive(width, width, width),
    "location": lambda width, longest: Location(width, longest),
    "scaled-dot": lambda width, longest: ScaledDot(),
    "cosine": lambda width, longest: Cosine(LearnedSharpness(width**0.5)),
    "distance": lambda width, longest: Distance(width**0.5),
}
"""For queries and keys of this width, and at most so many keys."""
