"""Functions on attention weights as arrays."""

from regard.maps.alignment import Alignment
from regard.maps.averages import average_heads, average_layers, shares
from regard.maps.document import DocumentWeights
from regard.maps.lookups import Lookups, beside
from regard.maps.other_map import OtherMap
from regard.maps.rollout import of_patches, rollout
from regard.maps.text import TextWeights
from regard.maps.words import join_words, word_alignment

__all__ = [
    "Alignment",
    "DocumentWeights",
    "Lookups",
    "OtherMap",
    "TextWeights",
    "average_heads",
    "average_layers",
    "beside",
    "join_words",
    "of_patches",
    "rollout",
    "shares",
    "word_alignment",
]
