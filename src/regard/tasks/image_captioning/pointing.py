"""Whether a model looks at what it names."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float

from regard.data.caption_batch import collate_captions
from regard.data.captions import Box, Captioned
from regard.decoders.gated import GatedDecoder
from regard.images import Pixels
from regard.models.captioner import Captioner
from regard.recording import Maps, record
from regard.tasks.image_captioning.run_file import ImageCaptioning
from regard.text import Tokenizer

POINTING = "pointing"
"""In per cent, the share of the weight that lies in the box of what a word names, the mean over such words."""


def pointing(
    model: Captioner,
    tokenizer: Tokenizer,
    images: Sequence[Captioned],
    captions: Sequence[Sequence[int]],
    config: ImageCaptioning,
) -> float | None:
    """While the model writes these captions, which are its own. A word that names what is in other images and not in
    this one counts as 0. None where no part of an image has a name or no word is one, or the model does not attend."""
    names = {name for each in images for name in each.boxes}
    if model.decoder.source_attention is None:
        return None
    shares: list[float] = []
    for each, ids in zip(images, captions, strict=True):
        said = [(at, word) for at, word in enumerate(tokenizer.pieces(ids)) if word in names]
        if said:
            weights = looked(model, pixels_of(each, config), ids, config)
            nowhere = np.zeros(weights.shape[1:])
            parts = {name: overlap(box, config.model.side) for name, box in each.boxes.items()}
            shares += [float((weights[at] * parts.get(word, nowhere)).sum()) for at, word in said]
    return 100 * sum(shares) / len(shares) if shares else None


def pixels_of(each: Captioned, config: ImageCaptioning) -> Pixels:
    """The part of an image that the model is given. Raises InputError for one that cannot be read."""
    return config.images.pixels(each.image, config.model.image, config.model.channels, each.place)


def looked(
    model: Captioner, image: Pixels, ids: Sequence[int], config: ImageCaptioning
) -> Float[np.ndarray, "position row column"]:
    """The weights on the cells with which a model that attends writes each token of a caption, END last: the mean over
    its layers and heads."""
    readers = model.decoder.source_attention
    assert readers is not None
    weights = recorded(model, image, ids, config, readers).together()[0].mean(0).double().cpu().numpy()
    return weights.reshape(len(weights), config.model.side, config.model.side)


def gates(model: Captioner, image: Pixels, ids: Sequence[int], config: ImageCaptioning) -> tuple[float, ...] | None:
    """The gate on what was read for each token of a caption; None for a model without one."""
    if not isinstance(model.decoder, GatedDecoder):
        return None
    opened = recorded(model, image, ids, config, "gate")["gate"]
    return tuple(opened[0, : len(ids), 0].tolist())


@torch.no_grad()
def recorded(
    model: Captioner, image: Pixels, ids: Sequence[int], config: ImageCaptioning, only: str | tuple[str, ...]
) -> Maps:
    """What modules of the decoder hand over while it is made to write a caption."""
    batch = collate_captions([(config.images.tensor(image), list(ids))], config.cells)
    batch = batch.to(next(model.parameters()).device)
    with record(model.decoder, only=only) as maps:
        model(batch.images, batch.target_in)
    return maps


def overlap(box: Box, side: int) -> Float[np.ndarray, "row column"]:
    """How much of each cell of an image with `side` x `side` cells lies in a box: 0 to 1."""
    edges = np.arange(side + 1) / side
    down, across = (
        np.clip(np.minimum(edges[1:], box[axis + 2]) - np.maximum(edges[:-1], box[axis]), 0, None) * side
        for axis in (0, 1)
    )
    return down[:, None] * across
