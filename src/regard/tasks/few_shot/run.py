"""A trained few-shot classifier: `load(folder).predict([FewShotExample(support, query)])`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, UInt8

from regard.attention.record import record
from regard.data.images import LabelledImage
from regard.data.memory import Records
from regard.data.records import parse_object
from regard.errors import InputError
from regard.images import Image, decode_image
from regard.maps.lookups import Lookups
from regard.models.few_shot_snail import FewShotSnail
from regard.nonfinite import guarded
from regard.pictures.episode import episode, layer_names
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution
from regard.tasks.class_prediction import ClassPrediction
from regard.tasks.evaluation import for_evaluation
from regard.tasks.few_shot.config import FewShot
from regard.tasks.few_shot.training import figures, pixels_of, pool
from regard.tasks.options import AttributionOptions, EvaluationOptions, PredictOptions
from regard.tasks.run import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUERY = "query"
"""The label of the query image."""
SHOWN = 8
"""The most other classes whose probabilities a picture has."""
FORM = '{"examples": {"cat": ["1.png"], "dog": ["2.png"]}, "image": "3.png"}'
"""An example as a line of JSON: paths of images of each class, and of the image whose class is predicted."""


@dataclass(frozen=True, eq=False)
class FewShotExample:
    """Support images by the name of their class, and a query image; each a path, or an array of uint8."""

    support: Mapping[str, Sequence[Image]]
    query: Image


@dataclass(frozen=True, eq=False)
class EpisodeWeights:
    """The weights of each image of an episode on itself and the images before it, in every layer; the query is the
    last.

    query: its pixels. support: those of the support images, in order. labels: their classes.
    maps: `(layer, image, image)`; a row sums to 1.
    """

    query: UInt8[np.ndarray, "height width channel"]
    support: UInt8[np.ndarray, "image height width channel"]
    labels: tuple[str, ...]
    maps: Float[np.ndarray, "layer read read"]

    @property
    def weights(self) -> Float[np.ndarray, " read"]:
        """The weights of the query on every image, in the last layer."""
        return self.maps[-1, -1]

    def lookups(self) -> tuple[Lookups, Lookups]:
        """The lookups of the query and of every image, in all layers. Images are named by class, and by number where a
        class has several."""
        numbers = (
            self.labels[:place].count(label) + 1
            for place, label in enumerate(self.labels)
        )
        several = len(set(self.labels)) < len(self.labels)
        names = [
            f"{label} {n}" if several else label
            for label, n in zip(self.labels, numbers, strict=True)
        ]
        labels, images = (
            (*names, QUERY),
            np.concatenate([self.support, self.query[None]]),
        )
        layers = layer_names(len(self.maps))
        return (
            Lookups(
                self.maps[:, None, -1:],
                labels,
                (QUERY,),
                "the query image",
                layers,
                images=images,
            ),
            Lookups(
                self.maps[:, None], labels, labels, "every image", layers, images=images
            ),
        )

    def figure(self, title: str) -> "Figure":
        """The query and the support images, framed by the weights of the query in each lookup."""
        return episode(
            self.query, self.support, self.labels, self.maps[:, -1], title=title
        )


class FewShotRun(Run[FewShotExample, ClassPrediction]):
    """A trained model with its run file."""

    config: FewShot
    model: FewShotSnail
    supports = {
        "predict": frozenset(),
        "evaluate": frozenset({"files", "skip_bad"}),
        "attribute": frozenset(),
    }
    inputs = {"examples": dict[str, list[bytes]], "image": bytes}
    unit = "images"

    def __init__(self, config: FewShot, model: FewShotSnail):
        self.config, self.model = config, model

    @classmethod
    def open(cls, run: RunDirectory, config: FewShot) -> "FewShotRun":
        """The run in a folder, its model with fresh weights."""
        return cls(
            config, FewShotSnail(config.data.ways, config.data.shots, config.model)
        )

    def parse(self, line: str, place: str = "text 1") -> FewShotExample:
        """The paths in `{"examples": {"cat": ["1.png"], "dog": ["2.png"]}, "image": "3.png"}`."""
        record, fault = parse_object(line, FORM)
        match record:
            case {"examples": dict(support), "image": str(query)} if all(
                map(are_paths, support.values())
            ):
                return FewShotExample(support, query)
        raise InputError(f"{place}: {fault}")

    def example(self, values: Mapping[str, Any]) -> FewShotExample:
        """The pixels of image files' bytes: some `examples` of each class, and the query. Raises InputError for bytes
        that are no image."""
        channels = self.config.model.channels
        support = {
            label: [decode_image(each, channels) for each in images]
            for label, images in values["examples"].items()
        }
        return FewShotExample(support, decode_image(values["image"], channels))

    def record(self, example: FewShotExample) -> dict[str, Any]:
        return {"image": str(example.query)}

    def read(
        self, files: Sequence[Path | Records], options: EvaluationOptions
    ) -> list[LabelledImage]:
        """The images of sets of the kind of the run's own. Raises InputError as `EpisodeSets.read`."""
        data = self.config.data.skipping(options.skip_bad)
        return [each for file in files for each in data.read(str(file))]

    def convention(self) -> str:
        return f"accuracy is over {self.config.data.test_episodes:,} {self.config.data.form}"

    def _evaluate(
        self, examples: Sequence[LabelledImage] | None, options: EvaluationOptions
    ) -> dict[str, float]:
        """Accuracy in `test_episodes` of the classes of the images, with its standard error, in per cent.

        Raises:
            InputError: there are neither examples nor a test set, or classes or their images are too few.
        """
        data = self.config.data
        sets = [
            lambda: [*chain(*data.load().test.values())],
            lambda: [*chain(*data.load().valid.values())],
        ]
        images = for_evaluation(
            examples,
            data,
            "give a set of images",
            tests=sets[0],
            valid=sets[1],
            unit=self.unit,
        )
        classes = pool(data.checked(images, "the images for evaluation"), self.config)
        with guarded(self.model):
            return figures(self.model, classes, self.config, data.test_episodes)

    def _predict(
        self, examples: Sequence[FewShotExample], options: PredictOptions
    ) -> list[ClassPrediction]:
        """The class of each query image.

        Raises:
            InputError: other numbers of classes or support images than the model was trained for, or an image that
                cannot be read.
        """
        return [self._attend(each)[0] for each in examples]

    def _attribute(
        self, example: FewShotExample, options: AttributionOptions
    ) -> Attribution:
        """The attention of the query image to each support image and to itself. Raises InputError as `predict`."""
        found, weights = self._attend(example)
        others = [
            f"{label} {share:.2f}"
            for label, share in found.probabilities.items()
            if label != found.label
        ]
        detail = f"probabilities of the other classes: {', '.join(others[:SHOWN])}{', …' * (len(others) > SHOWN)}"
        lookups = weights.lookups()
        return Attribution(
            found,
            str(found),
            lookups,
            weights,
            options,
            draw=weights.figure,
            detail=detail,
        )

    @torch.no_grad()
    def _attend(
        self, example: FewShotExample
    ) -> tuple[ClassPrediction, EpisodeWeights]:
        support = example.support
        names = self._checked(support)
        labels = [name for name in names for _ in support[name]]
        images = [each for name in names for each in support[name]]
        places = [f"example {number}" for number in range(1, len(images) + 1)]
        pairs = zip((*images, example.query), (*places, "the query image"), strict=True)
        pixels = np.stack(
            [
                pixels_of(LabelledImage(each, "", place), self.config)
                for each, place in pairs
            ]
        )
        device = next(self.model.parameters()).device
        seen = torch.stack([self.config.images.tensor(each) for each in pixels])[
            None
        ].to(device)
        numbers = torch.tensor(
            [[names.index(label) for label in labels]], device=device
        )
        with (
            guarded(self.model),
            record(self.model, only=self.model.self_attention) as maps,
        ):
            logits = self.model(seen, numbers)
        weights = maps.layered()[0, :, 0].double().cpu().numpy()
        found = ClassPrediction.of(names, logits[0, 0].softmax(-1).tolist())
        return found, EpisodeWeights(pixels[-1], pixels[:-1], tuple(labels), weights)

    def _checked(self, support: Mapping[str, Sequence[Image]]) -> list[str]:
        """The names of the classes. Raises InputError."""
        ways, shots = self.config.data.ways, self.config.data.shots
        if len(support) != ways:
            of = f"{len(support)} {'class' if len(support) == 1 else 'classes'}"
            raise InputError(
                f"got examples of {of}; the model was trained for {ways} classes, give examples of as many"
            )
        for name, some in support.items():
            if len(some) != shots:
                raise InputError(
                    f"class {name!r} has {len(some)} examples; the model was trained for {shots} each"
                )
        return list(support)


def are_paths(value: object) -> bool:
    """Whether a value of JSON is a list of texts."""
    return isinstance(value, list) and all(isinstance(each, str) for each in value)
