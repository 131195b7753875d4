"""The attention to an image while a caption is decoded."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float

from regard.attention.record import record_breakdown
from regard.images import Pixels
from regard.maps.breakdown import Breakdown
from regard.models.captioner import Captioner
from regard.pictures.overlay import overlays
from regard.tasks.image_captioning.config import ImageCaptioning
from regard.tasks.image_captioning.data import CaptionBatch, Captioned, collate_captions

if TYPE_CHECKING:
    from matplotlib.figure import Figure


HEAT = "attention weights: what each word reads of the image"
GATE = "gate: the share of what is read that enters the word, 0 none to 1 all"


def pixels_of(each: Captioned, config: ImageCaptioning) -> Pixels:
    """The pixels of an image as the model's input. Raises InputError for one that cannot be read."""
    return config.images.pixels(
        each.image, config.model.image, config.model.channels, each.place
    )


def decodable(each: Captioned, config: ImageCaptioning) -> Captioned:
    """The same image. Raises InputError as `pixels_of` does."""
    pixels_of(each, config)
    return each


def one(
    model: Captioner, image: Pixels, ids: Sequence[int], config: ImageCaptioning
) -> CaptionBatch:
    """A batch of one image and its caption, on the model's device."""
    batch = collate_captions(
        [(config.images.tensor(image), list(ids))], config.cells, model.decoder.special
    )
    return batch.to(next(model.parameters()).device)


@dataclass(frozen=True, eq=False)
class CaptionMaps:
    """The weights on the cells at each token of a caption, END last, of every layer and head; the gate on the context
    of each token but END, 0 to 1, None for a model without a gate; and the breakdown of the weights."""

    every: Float[np.ndarray, "layer head position row column"]
    gates: tuple[float, ...] | None
    breakdown: Breakdown | None = None

    @property
    def weights(self) -> Float[np.ndarray, "position row column"]:
        """The mean over layers and heads."""
        return self.every.mean((0, 1))


@dataclass(frozen=True, eq=False)
class CaptionWeights:
    """The attention to the cells of an image at each token of its caption.

    photo: the part of the photograph that the model reads, in its own colours and resolution.
    tokens: those of the caption, without END.
    weights: on the cells, the mean over layers and heads; gates: on the context, 0 to 1, for models with a gate.
    """

    photo: Pixels
    tokens: tuple[str, ...]
    weights: Float[np.ndarray, "token row column"]
    gates: tuple[float, ...] | None

    def figure(self, title: str) -> "Figure":
        """The photograph, and for each token a heat map of its weights over it, with its gate."""
        gates, notes = (), [HEAT]
        if self.gates is not None:
            gates, notes = (
                tuple(f"gate {gate:.2f}" for gate in self.gates),
                [HEAT, GATE],
            )
        return overlays(
            self.photo,
            self.weights,
            self.tokens,
            title=title,
            remarks=gates,
            notes=notes,
        )


@torch.no_grad()
def attended(
    model: Captioner, image: Pixels, ids: Sequence[int], config: ImageCaptioning
) -> CaptionMaps:
    """The attention to the image at each token of a caption, from one pass with teacher forcing."""
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
