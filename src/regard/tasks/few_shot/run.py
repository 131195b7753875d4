"""A trained model that tells classes after a few examples, opened: `load(folder).predict(examples, images)`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, UInt8

from regard.attention.record import record
from regard.data.images import LabelledImage
from regard.errors import InputError
from regard.images import Image
from regard.maps.lookups import Lookups
from regard.models.snail import FewShotSnail
from regard.nonfinite import guarded
from regard.storage.run_folder import RunDirectory
from regard.tasks.classification.run import ClassPrediction
from regard.tasks.few_shot.config import FewShot
from regard.tasks.few_shot.training import figures, pixels_of, pool
from regard.tasks.run import Run

ASKED = "asked"
"""What the image is called that is to be told."""
Examples = Mapping[str, Sequence[Image]]
"""A few images of each class, by its name."""


@dataclass(frozen=True, eq=False)
class Compared:
    """An image's class, what the model was shown, in that order, and the weights with which the last lookup read these
    images and, last, the asked one itself; all together 1. In `maps` every image reads those before it and itself, the
    asked one last, in each lookup."""

    found: ClassPrediction
    asked: UInt8[np.ndarray, "height width channel"]
    shown: UInt8[np.ndarray, "image height width channel"]
    labels: tuple[str, ...]
    maps: Float[np.ndarray, "layer read read"]

    @property
    def weights(self) -> Float[np.ndarray, " read"]:
        """Those of the last lookup for the asked image."""
        return self.maps[-1, -1]

    def lookups(self) -> tuple[Lookups, Lookups]:
        """What the asked image read, in every layer, and what every image did. Images are named by their class, those
        of a class also by their number."""
        numbers = (self.labels[:place].count(label) + 1 for place, label in enumerate(self.labels))
        several = len(set(self.labels)) < len(self.labels)
        names = [f"{label} {n}" if several else label for label, n in zip(self.labels, numbers, strict=True)]
        labels, images = (*names, ASKED), np.concatenate([self.shown, self.asked[None]])
        return (
            Lookups(self.maps[:, None, -1:], labels, (ASKED,), "the asked image", images=images),
            Lookups(self.maps[:, None], labels, labels, "every image", images=images),
        )


class FewShotRun(Run):
    """A trained model with its run file."""

    def __init__(self, config: FewShot, model: FewShotSnail):
        self.config, self.model = config, model

    @classmethod
    def open(cls, run: RunDirectory, config: FewShot) -> "FewShotRun":
        """The run in a folder, its model with fresh weights."""
        return cls(config, FewShotSnail(config.data.ways, config.data.shots, config.model))

    def evaluate(self, examples: Sequence[LabelledImage] | None = None) -> dict[str, float]:
        """How often the class is right, in `test_episodes` of the classes of the images, by default the run's own test
        set.

        Raises:
            InputError: the run has no test set and no images are given, or classes or their images are too few.
        """
        data = self.config.data
        given = [each for some in data.load().test.values() for each in some] if examples is None else examples
        if not given:
            raise InputError("there is no test set in the run file and no images are given; set data.test")
        images = pool(data.checked(given, "the images given"), self.config)
        with guarded(self.model):
            return figures(self.model, images, self.config, data.test_episodes)

    def predict(self, examples: Examples, images: Sequence[Image]) -> list[ClassPrediction]:
        """The class of each image, after as many `examples` of as many classes as the model was trained for; images by
        their paths or as arrays of uint8.

        Raises:
            TypeError: `images` is one image; put it in a list.
            InputError: other numbers of classes or examples, or an image that cannot be read.
        """
        if isinstance(images, str | Path | np.ndarray):
            raise TypeError(f"images is one {type(images).__name__}; give a list of them")
        return [self.compare(examples, each).found for each in images]

    @torch.no_grad()
    def compare(self, examples: Examples, image: Image) -> Compared:
        """The class of one image, and what was looked at to tell it. Raises InputError as `predict` does."""
        names = self._checked(examples)
        labels = [name for name in names for _ in examples[name]]
        given = [each for name in names for each in examples[name]]
        places = [f"example {number}" for number in range(1, len(given) + 1)]
        pairs = zip((*given, image), (*places, "the image"), strict=True)
        pixels = np.stack([pixels_of(LabelledImage(each, "", place), self.config) for each, place in pairs])
        device = next(self.model.parameters()).device
        seen = torch.stack([self.config.images.tensor(each) for each in pixels])[None].to(device)
        numbers = torch.tensor([[names.index(label) for label in labels]], device=device)
        with guarded(self.model), record(self.model, only=self.model.self_attention) as maps:
            logits = self.model(seen, numbers)
        weights = maps.layered()[0, :, 0].double().cpu().numpy()
        found = ClassPrediction.of(names, logits[0, 0].softmax(-1).tolist())
        return Compared(found, pixels[-1], pixels[:-1], tuple(labels), weights)

    def _checked(self, examples: Examples) -> list[str]:
        """The names of the classes. Raises InputError."""
        ways, shots = self.config.data.ways, self.config.data.shots
        if len(examples) != ways:
            raise InputError(f"{len(examples)} classes; the model was trained to tell {ways} apart, give as many")
        for name, some in examples.items():
            if len(some) != shots:
                raise InputError(f"class {name!r} has {len(some)} examples; the model was trained for {shots} each")
        return list(examples)
