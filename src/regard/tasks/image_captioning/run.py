"""A trained captioner of images: `load(folder).predict(images)`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from regard.attention.memory import Memory
from regard.decoding.streaming import StreamSource
from regard.images import Image
from regard.maps.lookups import Patches, patch_labels
from regard.metrics import METRICS
from regard.models.captioner import Captioner
from regard.models.catalog import CAPTIONERS
from regard.pictures.overlay import overlays
from regard.tasks.generating import GeneratingRun
from regard.tasks.image_captioning.config import ImageCaptioning
from regard.tasks.image_captioning.data import (
    Box,
    Captioned,
    CaptionTables,
)
from regard.tasks.image_inputs import ImageRun
from regard.tasks.options import EvaluationOptions
from regard.text import Tokenizer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEAT_NOTE = "attention weights: what each word reads of the image"
GATE_NOTE = "gate: the share of what is read that enters the word, 0 none to 1 all"
POINTING = "pointing"
"""The metric of the mean attention in the box of the object that a word names."""


class ImageCaptioningRun(ImageRun, GeneratingRun[Image, Captioned]):
    """A trained model with its tokenizer and its run file. Examples are images."""

    config: ImageCaptioning
    model: Captioner
    source_name = "image"
    tables = CaptionTables
    data_hint = "give images with captions"

    @staticmethod
    def build(config: ImageCaptioning, tokenizer: Tokenizer) -> Captioner:
        return CAPTIONERS.build(config.model, tokenizer.size)

    def prepare(self, example: Image, name: str) -> Captioned:
        return Captioned(example, (), name)

    def check(self, source: Captioned) -> Captioned:
        return self.config.check_image(source)

    def encode(self, sources: Sequence[Captioned]) -> tuple[Memory, Tensor]:
        images = self.config.read_batch(sources).to(self.device)
        lengths = torch.zeros(len(sources), dtype=torch.int64, device=self.device)
        return self.model.encoder(images), lengths

    def label_source(self, source: Captioned) -> StreamSource:
        side = self.config.model.side
        photo = self.config.images.photograph(source.image, self.config.model.image)
        return StreamSource(patch_labels(side, side), Patches(photo, side, side))

    def normalize_target(self, text: str) -> str:
        return self.config.normalize(text)

    def compute_metrics(
        self, examples: Sequence[Captioned], options: EvaluationOptions
    ) -> dict[str, float]:
        """Return the run's metrics, and how words point at objects with known boxes."""
        search = self.config.search.with_beam(options.beam)
        ids = [list(best.tokens) for best, *_ in self.search(examples, search)]
        outputs = [self.tokenizer.decode(tokens) for tokens in ids]
        references = [
            [self.config.normalize(caption) for caption in image.captions]
            for image in examples
        ]
        scores: dict[str, float] = {
            name: METRICS[name](outputs, references) for name in self.config.metrics
        }
        share = self.measure_pointing(examples, ids)
        return scores if share is None else scores | {POINTING: share}

    def measure_pointing(
        self, images: Sequence[Captioned], captions: Sequence[Sequence[int]]
    ) -> float | None:
        """Return the mean attention in the boxes of named objects, in per cent.

        A word that names an object of other images only counts as 0.

        Returns:
            None for images without boxes, captions without such words, or a model
            without attention.
        """
        names = {name for image in images for name in image.boxes}
        if self.model.decoder.source_attention is None:
            return None
        shares: list[float] = []
        for image, ids in zip(images, captions, strict=True):
            pieces = self.tokenizer.pieces(ids)
            if names.isdisjoint(pieces):
                continue
            maps, _, _ = self.record_output(image, ids)
            weights = maps.mean((0, 1))
            for position, word in enumerate(pieces):
                if word in image.boxes:
                    inside = overlap(image.boxes[word], self.config.model.side)
                    shares.append(float(weights[position] @ inside.ravel()))
                elif word in names:
                    shares.append(0.0)
        return 100 * sum(shares) / len(shares) if shares else None

    def plot(
        self,
        source: Captioned,
        patches: Patches,
        tokens: tuple[str, ...],
        weights: np.ndarray,
        remarks: tuple[str, ...],
        title: str,
    ) -> "Figure":
        notes = [HEAT_NOTE, GATE_NOTE] if remarks else [HEAT_NOTE]
        return overlays(
            patches.pixels, weights, tokens, title=title, remarks=remarks, notes=notes
        )


def overlap(box: Box, side: int) -> np.ndarray:
    """Return the share of each of `side` x `side` cells that lies in a box, 0 to 1."""
    edges = np.arange(side + 1) / side
    shares = []
    for first, last in ((box[0], box[2]), (box[1], box[3])):
        covered = np.minimum(edges[1:], last) - np.maximum(edges[:-1], first)
        shares.append(np.clip(covered, 0, None) * side)
    return np.outer(*shares)
