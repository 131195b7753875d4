"""Attribution of outputs to their sources, without labels."""

from collections.abc import Sequence

import numpy as np

from regard.attribution.cross_attention import attribute_cross_attention
from regard.attribution.kinds import Kind
from regard.maps.heads import Side
from regard.nn.encoder_decoder import EncoderDecoder


def attribute_outputs(
    model: EncoderDecoder, outputs: Sequence[tuple[list[int], list[int]]], kind: Kind, maps: list[int] | None = None
) -> list[np.ndarray]:
    """The one map of each output."""
    found = []
    for source, target in outputs:
        sides = Side.of(["s"] * (len(source) + 1)), Side.of(["t"] * len(target))
        _, attention = attribute_cross_attention(model, (source, target), sides, kind, maps)
        found.append(attention.weights)
    return found
