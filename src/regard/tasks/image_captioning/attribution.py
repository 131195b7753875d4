"""What a model reads of an image, and where it attends while it writes a caption."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float

from regard.attention.record import record_breakdown
from regard.images import Pixels
from regard.maps.breakdown import Workings
from regard.models.captioner import Captioner
from regard.pictures.overlay import overlays
from regard.tasks.image_captioning.batch import CaptionBatch, collate_captions
from regard.tasks.image_captioning.config import ImageCaptioning
from regard.tasks.image_captioning.data import Captioned

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def pixels_of(each: Captioned, config: ImageCaptioning) -> Pixels:
    """The part of an image that the model is given. Raises InputError for one that cannot be read."""
    return config.images.pixels(each.image, config.model.image, config.model.channels, each.place)


def one(model: Captioner, image: Pixels, ids: Sequence[int], config: ImageCaptioning) -> CaptionBatch:
    """A batch of one image and its caption, where the model is."""
    batch = collate_captions([(config.images.tensor(image), list(ids))], config.cells, model.decoder.special)
    return batch.to(next(model.parameters()).device)


@dataclass(frozen=True, eq=False)
class CaptionMaps:
    """The weights on the cells with which each token of a caption is written, the end last, of every layer and
    head; and the gate on what was read for each but the end, 0 to 1, None for a model without one; and what the
    weights are made of."""

    every: Float[np.ndarray, "layer head position row column"]
    gates: tuple[float, ...] | None
    workings: Workings | None = None

    @property
    def weights(self) -> Float[np.ndarray, "position row column"]:
        """The mean over layers and heads."""
        return self.every.mean((0, 1))


@dataclass(frozen=True, eq=False)
class CaptionWeights:
    """Where in an image a model attended while it wrote each token of a caption.

    pixels: the part of the image that the model reads.
    tokens: the caption's, without END.
    weights: of the cells, the mean over layers and heads; gates: on what was read, 0 to 1, for models with a gate.
    """

    pixels: Pixels
    tokens: tuple[str, ...]
    weights: Float[np.ndarray, "token row column"]
    gates: tuple[float, ...] | None

    def figure(self, title: str) -> "Figure":
        """The image, and for each token the image lit by its weights, with its gate."""
        titles = self.tokens
        if self.gates is not None:
            titles = tuple(f"{word}  {gate:.2f}" for word, gate in zip(titles, self.gates, strict=True))
        return overlays(self.pixels, self.weights, titles)


@torch.no_grad()
def attended(model: Captioner, image: Pixels, ids: Sequence[int], config: ImageCaptioning) -> CaptionMaps:
    """What a model that attends reads of the image while it is made to write a caption, in one pass."""
    readers, gate = model.decoder.source_attention, model.decoder.source_gate
    assert readers is not None
    names = (readers,) if isinstance(readers, str) else readers
    batch = one(model, image, ids, config)
    observed = names if gate is None else (*names, gate)
    with record_breakdown(model.decoder, observed) as maps:
        model(batch.images, batch.target_in)
    every = maps.without(gate).layered()[0].double().cpu().numpy()
    opened = None if gate is None else tuple(maps[gate][0, : len(ids), 0].tolist())
    cells = every.reshape(*every.shape[:-1], config.model.side, config.model.side)
    return CaptionMaps(cells, opened, maps.breakdown(every))
