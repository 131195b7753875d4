"""Functions on attention weights as arrays."""

from regard.maps.alignment import (
    Alignment,
    DocumentWeights,
    TextWeights,
    join_words,
)
from regard.maps.lookups import AlternativeMap, Lookups, with_maps
from regard.maps.reductions import average_heads, patch_weights, rollout, shares

__all__ = [
    "Alignment",
    "AlternativeMap",
    "DocumentWeights",
    "Lookups",
    "TextWeights",
    "average_heads",
    "join_words",
    "patch_weights",
    "rollout",
    "shares",
    "with_maps",
]
