"""A trained model that tells of images, opened: `load(folder).tell(images)`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Float

from regard.catalog import build_captioner
from regard.data.captions import Captioned
from regard.errors import InputError
from regard.images import Image, Pixels
from regard.inference.kinds import Kind, Role
from regard.inference.roles import within_part
from regard.inference.within import Reading
from regard.inference.words import side
from regard.maps.lookups import Lookups, Patches, patch_labels
from regard.models.captioner import Captioner
from regard.nonfinite import guarded
from regard.tasks.image_captioning.looking import Seen, looked, one, pixels_of
from regard.tasks.image_captioning.run_file import ImageCaptioning
from regard.tasks.image_captioning.task import figures, told
from regard.tasks.run import Run
from regard.tasks.tokenizer_file import TOKENIZER
from regard.text import Tokenizer
from regard.text.special import START
from regard.training.run_directory import RunDirectory


@dataclass(frozen=True)
class Caption:
    """What is said of an image, and its log-probability, divided by the length penalty if the run has one."""

    text: str
    score: float
    tokens: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**vars(self), "tokens": list(self.tokens)}


@dataclass(frozen=True, eq=False)
class LookedAt:
    """A caption, the part of the image that was looked at, the weights of its cells for each token of the caption, and
    for models that have one the gate on what was read, 0 to 1."""

    caption: Caption
    pixels: Pixels
    weights: Float[np.ndarray, "token row column"]
    gates: tuple[float, ...] | None
    lookups: Lookups
    """The weights of every layer and head."""


class ImageCaptioningRun(Run):
    """A trained model with its tokenizer and its run file."""

    def __init__(self, config: ImageCaptioning, model: Captioner, tokenizer: Tokenizer):
        self.config, self.model, self.tokenizer = config, model, tokenizer

    @classmethod
    def open(cls, run: RunDirectory, config: ImageCaptioning) -> "ImageCaptioningRun":
        """The run in a folder, its model with fresh weights. Raises InputError for a damaged tokenizer."""
        tokenizer = Tokenizer.load(run.file(TOKENIZER))
        return cls(config, build_captioner(config.model, tokenizer.size), tokenizer)

    def evaluate(self, examples: Sequence[Captioned] | None = None, *, beam: int | None = None) -> dict[str, float]:
        """How good the captions are, by default those of the run's own test set.

        Raises:
            InputError: the run has no test set and no images are given, or an image cannot be read.
        """
        given = self.config.data.tests() if examples is None else examples
        if not given:
            raise InputError("there is no test set in the run file and nothing is given; give images with captions")
        with guarded(self.model):
            return figures(self.model, self.tokenizer, given, self.config, self._search(beam))

    def tell(self, images: Sequence[Image], *, beam: int | None = None) -> list[Caption]:
        """A caption for each image, given by its path or as an array of uint8 `(height, width)` or `(height, width,
        channel)`.

        Raises:
            TypeError: `images` is one image; put it in a list.
            InputError: an image cannot be read, or is an array of another kind.
            ValueError: beam and vocabulary do not fit together.
        """
        if isinstance(images, str | Path | np.ndarray):
            raise TypeError(f"images is one {type(images).__name__}; give a list of them")
        given = [Captioned(each, (), f"image {number}") for number, each in enumerate(images, 1)]
        with guarded(self.model):
            found = told(self.model, given, self.config, self._search(beam))
        return [
            Caption(self.tokenizer.decode(best.tokens), best.score, tuple(self.tokenizer.pieces(best.tokens)))
            for best, *_ in found
        ]

    @torch.no_grad()
    def look(self, image: Image, *, beam: int | None = None) -> LookedAt:
        """The caption of an image, and where the model looked for each of its tokens.

        Raises:
            InputError: as `tell`, and where the model does not attend to its image.
        """
        if self.model.decoder.source_attention is None:
            raise InputError("the run's model sees its image once and looks at no part of it, so nothing can be drawn")
        each = Captioned(image, (), "the image")
        pixels = pixels_of(each, self.config)
        with guarded(self.model):
            ((best, *_),) = told(self.model, [each], self.config, self._search(beam))
            ids = list(best.tokens)
            seen = looked(self.model, pixels, ids, self.config)
        caption = Caption(self.tokenizer.decode(ids), best.score, tuple(self.tokenizer.pieces(ids)))
        lookups = self._lookups(pixels, caption.tokens, seen)
        return LookedAt(caption, pixels, seen.weights[: len(ids)], seen.gates, lookups)

    @torch.no_grad()
    def look_within(
        self,
        image: Image,
        role: Role,
        maps: Sequence[int] | None = None,
        *,
        beam: int | None = None,
        kind: Kind = "weights",
    ) -> Reading:
        """The caption of an image, and what the tokens that were written read of each other, START first. Of all maps,
        or of those whose numbers, layer x heads + head, are given. Cells of the image do not read each other.

        Raises:
            InputError: as `tell`, and as `within_part`.
        """
        each = Captioned(image, (), "the image")
        with guarded(self.model):
            ((best, *_),) = told(self.model, [each], self.config, self._search(beam))
            given = best.tokens if best.finished else best.tokens[:-1]
            batch = one(self.model, pixels_of(each, self.config), list(given), self.config)
            decoder, names = self.model.decoder, {"decoder": self.model.decoder.self_attention}
            found = within_part(
                decoder,
                names.get(role),
                role,
                side(self.tokenizer, [START, *given]),
                lambda: self.model(batch.images, batch.target_in),
                maps,
                kind,
            )
        return Reading(self.tokenizer.decode(best.tokens), *found)

    def _lookups(self, pixels: Pixels, tokens: tuple[str, ...], seen: Seen) -> Lookups:
        """Without the row of END."""
        side = self.config.model.side
        notes = () if seen.gates is None else tuple(f"gate {gate:.2f}" for gate in seen.gates)
        weights = rearrange(
            seen.every[:, :, : len(tokens)], "layer head token row column -> layer head token (row column)"
        )
        return Lookups(weights, patch_labels(side, side), tokens, notes=notes, patches=Patches(pixels, side, side))

    def _search(self, beam: int | None):
        return self.config.search if beam is None else self.config.search.searching(beam)
