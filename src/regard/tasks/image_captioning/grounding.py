"""Grounding: the attention of words to the objects that they name."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from regard.models.captioner import Captioner
from regard.tasks.image_captioning.attribution import attended, pixels_of
from regard.tasks.image_captioning.config import ImageCaptioning
from regard.tasks.image_captioning.data import Box, Captioned
from regard.text import Tokenizer

POINTING = "pointing"
"""The metric's name: the mean share of attention in the box of the object that a word names, in per cent."""


def pointing(
    model: Captioner,
    tokenizer: Tokenizer,
    images: Sequence[Captioned],
    captions: Sequence[Sequence[int]],
    config: ImageCaptioning,
) -> float | None:
    """The mean over the words of the model's own captions. A word that names an object of other images only counts as
    0. None for images without boxes, captions without such words, or a model without attention."""
    names = {name for each in images for name in each.boxes}
    if model.decoder.source_attention is None:
        return None
    shares: list[float] = []
    for each, ids in zip(images, captions, strict=True):
        named = [
            (at, word) for at, word in enumerate(tokenizer.pieces(ids)) if word in names
        ]
        if named:
            weights = attended(model, pixels_of(each, config), ids, config).weights
            nowhere = np.zeros(weights.shape[1:])
            parts = {
                name: overlap(box, config.model.side)
                for name, box in each.boxes.items()
            }
            shares += [
                float((weights[at] * parts.get(word, nowhere)).sum())
                for at, word in named
            ]
    return 100 * sum(shares) / len(shares) if shares else None


def overlap(box: Box, side: int) -> Float[np.ndarray, "row column"]:
    """The share of each of `side` x `side` cells of an image that lies in a box, 0 to 1."""
    edges = np.arange(side + 1) / side
    down, across = (
        np.clip(
            np.minimum(edges[1:], box[axis + 2]) - np.maximum(edges[:-1], box[axis]),
            0,
            None,
        )
        * side
        for axis in (0, 1)
    )
    return down[:, None] * across
