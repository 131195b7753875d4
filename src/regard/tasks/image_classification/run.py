"""A trained classifier of images: `load(folder).predict(images)`."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.attribution.available import LAYERED
from regard.attribution.kinds import AMOUNTS, VERBS, Kind
from regard.data.image_inputs import image_at
from regard.data.image_tables import ImageTables
from regard.data.images import LabelledImage
from regard.data.memory import Records
from regard.data.usable import usable_files
from regard.errors import InputError
from regard.images import Image, decode_image
from regard.maps import of_patches
from regard.maps.heads import HeadMaps
from regard.maps.lookups import Lookups, Patches, patch_labels
from regard.maps.other_map import OtherMap
from regard.models.vit import Vit
from regard.nonfinite import guarded
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution
from regard.tasks.class_prediction import (
    ClassPrediction,
    class_indices,
    class_metrics,
    label_counts,
    report_constant,
)
from regard.tasks.evaluation import for_evaluation
from regard.tasks.image_classification.attribution import (
    KINDS,
    PatchWeights,
    read_by_class,
    recorded,
)
from regard.tasks.image_classification.config import ImageClassification
from regard.tasks.image_classification.training import (
    decodable,
    pixels_of,
    probabilities,
)
from regard.tasks.options import (
    AttributionOptions,
    EvaluationOptions,
    PredictOptions,
    Verb,
)
from regard.tasks.prediction import TextPrediction
from regard.tasks.row_examples import input_columns
from regard.tasks.run import Run, refuse_one

ROLLOUT = "attention rollout: what the class reads of each patch through all layers"
MARKS = "[CLS]", "[DIST]"
"""The tokens before the patches."""


class ImageClassificationRun(Run[Image, ClassPrediction]):
    """A trained model with its labels and its run file. An example is an image: its path, or an array of uint8
    `(height, width)` or `(height, width, channel)`. An imported encoder without classes predicts nothing."""

    config: ImageClassification
    model: Vit
    supports: Mapping[Verb, frozenset[str]] = {
        "predict": frozenset(),
        "evaluate": frozenset({"files", "skip_bad"}),
        "attribute": frozenset({"kinds"}),
    }
    inputs = {"image": bytes}

    def __init__(self, config: ImageClassification, model: Vit, labels: Sequence[str]):
        self.config, self.model, self.labels = config, model, tuple(labels)
        if not self.labels:
            self.supports = {"attribute": self.supports["attribute"]}

    @classmethod
    def open(
        cls, run: RunDirectory, config: ImageClassification
    ) -> "ImageClassificationRun":
        """The run in a folder, its model with fresh weights."""
        labels = run.read_labels()
        return cls(config, Vit(len(labels), config.model), labels)

    def parse(self, line: str, place: str = "text 1") -> Image:
        """The path of an image, or its place in a file, as `digits.csv:2` (`image_at`)."""
        files = (
            self.config.data.files
            if isinstance(self.config.data, ImageTables)
            else None
        )
        return image_at(line, input_columns(self)["image"], files, place)

    def example(self, values: Mapping[str, Any]) -> Image:
        """The content of an image file. Raises InputError for bytes that are no image."""
        decode_image(values["image"])
        return values["image"]

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return tuple(kind for kind in LAYERED if self.labels or kind != "gradient")

    def description(self) -> dict[str, Any]:
        form = {
            "kind": "image",
            "model": self.config.model.name,
            "classes": list(self.labels),
        }
        return super().description() | (form if self.labels else {})

    def record(self, example: Image) -> dict[str, Any]:
        return {"image": str(example)} if isinstance(example, str | Path) else {}

    def read(
        self, files: Sequence[Path | Records], options: EvaluationOptions
    ) -> list[LabelledImage]:
        """The images of sets of the kind of the run's own. Raises InputError as `ImageSets.read`."""
        data, check = (
            self.config.data.skipping(options.skip_bad),
            partial(decodable, config=self.config),
        )
        return usable_files(files, data.read, check, skip_bad=options.skip_bad)

    def _evaluate(
        self, examples: Sequence[LabelledImage] | None, options: EvaluationOptions
    ) -> dict[str, float]:
        """Accuracy and macro-averaged F1, in per cent.

        Raises:
            InputError: there are neither examples nor a test set, a label is unknown, or an image cannot be read.
        """
        images = for_evaluation(examples, self.config.data, "give a set of images")
        classes = class_indices(self.labels, images)
        report_constant(label_counts(images))
        with guarded(self.model):
            return class_metrics(
                probabilities(self.model, images, self.config), classes
            )

    def _predict(
        self, examples: Sequence[Image], options: PredictOptions
    ) -> list[ClassPrediction]:
        """The class of each image. Raises InputError for one that cannot be read, or is an array of another kind."""
        images = [
            LabelledImage(each, "", f"image {number}")
            for number, each in enumerate(examples, 1)
        ]
        with guarded(self.model):
            found = probabilities(self.model, images, self.config)
        return [ClassPrediction.of(self.labels, row) for row in found.tolist()]

    @torch.no_grad()
    def embed(
        self, images: Sequence[Image], *, pool: Literal["mean", "first"] = "mean"
    ) -> Float[Tensor, "image width"]:
        """A vector for each image: the mean of its last states, [CLS] included, or the first. Raises InputError as
        `predict`."""
        refuse_one(images, "images")
        device = next(self.model.parameters()).device
        found = [torch.zeros(0, self.config.model.width)]
        for number, each in enumerate(images, 1):
            pixels = pixels_of(LabelledImage(each, "", f"image {number}"), self.config)
            (states,) = self.model.encoder(
                self.config.images.tensor(pixels)[None].to(device)
            )
            found.append(
                (states.mean(0) if pool == "mean" else states[0])[None].float().cpu()
            )
        return torch.cat(found)

    def _attribute(self, example: Image, options: AttributionOptions) -> Attribution:
        """The attribution of the class to each patch, `PatchWeights`: by rollout over all layers, by the weights or the
        norms of the last layer, averaged over heads, or by gradient x input at the patch vectors. The query is the
        first token, or the mean over the patches where these are pooled.

        Raises:
            InputError: as `predict`.
        """
        kinds, model = options.each_kind("rollout"), self.config.model
        if not self.labels and "gradient" in kinds:
            raise InputError(
                "the run has no classes, so there is no gradient of one; choose weights, norms or rollout"
            )
        pixels = pixels_of(LabelledImage(example, "", "the image"), self.config)
        batch = self.config.images.tensor(pixels)[None].to(
            next(self.model.parameters()).device
        )
        with guarded(self.model):
            seen = recorded(self.model, batch, norms="norms" in kinds)
            needed: set[Kind] = {*kinds, "weights"}
            positions = {kind: KINDS[kind](self.model, batch, seen) for kind in needed}
        side, found = (
            self.config.size // model.patch,
            self._prediction(example, seen.probabilities),
        )
        labels = patch_labels(side, side)
        heads = HeadMaps.of(seen.maps.lookups([*MARKS[: model.marks], *labels]))
        every = read_by_class(self.model, heads.weights)[:, -(side**2) :].reshape(
            len(heads.layers), -1, 1, side**2
        )
        photo = self.config.images.photograph(example, self.config.size)
        first = None if kinds[0] == "weights" else kinds[0]
        weights = {
            kind: of_patches(each, side, side) for kind, each in positions.items()
        }
        others = {
            kind: _other(kind, weights[kind], positions[kind])
            for kind in kinds
            if kind != "weights"
        }
        lookups = Lookups(
            every,
            labels,
            (found.text,),
            others=others,
            patches=Patches(photo, side, side),
            first=first,
        )
        patches = np.stack(
            [of_patches(each, side, side) for each in every.reshape(-1, side**2)]
        )
        own = PatchWeights(photo, weights[kinds[0]], weights["weights"], heads, patches)
        title = str(found) if self.labels else found.text
        views = {} if options.kinds else own.views(title)
        return Attribution(
            found,
            title,
            (lookups,),
            own,
            options,
            draw=own.figure,
            views=views,
            detail=ROLLOUT,
        )

    def _prediction(
        self, example: Image, probabilities: Sequence[float]
    ) -> ClassPrediction | TextPrediction:
        """The class; without classes the image's name."""
        if self.labels:
            return ClassPrediction.of(self.labels, probabilities)
        return TextPrediction(
            Path(example).name if isinstance(example, str | Path) else "image"
        )


def _other(
    kind: Kind,
    weights: Float[np.ndarray, "row column"],
    positions: Float[np.ndarray, " position"],
) -> OtherMap:
    """A map of the patches beside the weights: their shares, or of norms the amounts."""
    amounts = kind in AMOUNTS
    values = positions[-weights.size :] if amounts else weights
    return OtherMap(
        values.reshape(1, 1, 1, -1), (kind,), amounts=amounts, verbs=VERBS.get(kind)
    )
