"""What a model is given of an image, and where it looks while it writes a caption."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float

from regard.data.caption_batch import collate_captions
from regard.data.captions import Captioned
from regard.decoders.gated import GatedDecoder
from regard.images import Pixels
from regard.models.captioner import Captioner
from regard.recording import Maps, record
from regard.tasks.image_captioning.run_file import ImageCaptioning


def pixels_of(each: Captioned, config: ImageCaptioning) -> Pixels:
    """The part of an image that the model is given. Raises InputError for one that cannot be read."""
    return config.images.pixels(each.image, config.model.image, config.model.channels, each.place)


def looked(
    model: Captioner, image: Pixels, ids: Sequence[int], config: ImageCaptioning
) -> Float[np.ndarray, "position row column"]:
    """The weights on the cells with which a model that attends writes each token of a caption, END last: the mean over
    its layers and heads."""
    weights = maps_of(model, image, ids, config).together()[0].mean(0).double().cpu().numpy()
    return weights.reshape(len(weights), config.model.side, config.model.side)


def maps_of(model: Captioner, image: Pixels, ids: Sequence[int], config: ImageCaptioning) -> Maps:
    """The maps of every layer with which a model that attends writes a caption."""
    readers = model.decoder.source_attention
    assert readers is not None
    return recorded(model, image, ids, config, readers)


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
