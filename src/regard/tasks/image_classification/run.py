"""A trained image classifier: `load(folder).predict(images)`."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.attention.record import record
from regard.attribution.aggregation import aggregate_maps, check_kinds
from regard.attribution.kinds import KIND_VERBS, Kind
from regard.data.images import ImageTables, LabelledImage
from regard.data.records import Records
from regard.data.rows import SkipsBadRows, convert_files
from regard.errors import InputError
from regard.images import Image
from regard.maps import patch_weights
from regard.maps.lookups import AlternativeMap, Lookups, Patches, patch_labels
from regard.models.catalog import IMAGE_CLASSIFIERS
from regard.models.pretrained import PretrainedVision
from regard.models.vit import Vit
from regard.pictures.overlay import overlay
from regard.shapes import Float
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution
from regard.tasks.class_prediction import (
    ClassPrediction,
    compute_class_metrics,
    count_labels,
    index_classes,
    log_constant_accuracy,
)
from regard.tasks.image_classification.config import ImageClassification
from regard.tasks.image_inputs import ImageRun
from regard.tasks.options import (
    AttributionOptions,
    EvaluationOptions,
    PredictOptions,
    Verb,
)
from regard.tasks.prediction import TextPrediction
from regard.work import compute_batches

MOST_MARKS = 8
"""The most tokens before the patches, such as the registers of DINOv2."""
ROLLOUT_TITLE = (
    "attention rollout: what the class reads of each patch through all layers"
)
BATCH_ROWS = 64
"""Images in one batch of inference."""


class ImageClassificationRun(ImageRun):
    """A trained model with its labels and its run file. Examples are images.

    An imported encoder without classes predicts nothing.
    """

    config: ImageClassification
    model: Vit | PretrainedVision
    supports: Mapping[Verb, frozenset[str]] = {
        "predict": frozenset(),
        "evaluate": frozenset({"files", "skip_bad"}),
        "attribute": frozenset({"kinds"}),
    }
    tables = ImageTables
    data_hint = "give a set of images"

    def __init__(self, config: ImageClassification, model: Any, labels: Sequence[str]):
        self.config = config
        self.model = model
        self.labels = tuple(labels)
        if not self.labels:
            self.supports = {"attribute": self.supports["attribute"]}

    @classmethod
    def open(
        cls, run: RunDirectory, config: ImageClassification
    ) -> "ImageClassificationRun":
        """Open the run in a folder, its model with initial weights."""
        labels = run.read_labels()
        return cls(config, IMAGE_CLASSIFIERS.build(config.model, len(labels)), labels)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return "weights", "rollout"

    def description(self) -> dict[str, Any]:
        if not self.labels:
            return super().description()
        form = {"kind": "image", "classes": list(self.labels)}
        return super().description() | form | {"model": self.config.model.name}

    def record(self, example: Image) -> dict[str, Any]:
        return {"image": str(example)} if isinstance(example, str | Path) else {}

    def read(
        self, files: Sequence[Path | Records], options: EvaluationOptions
    ) -> list[LabelledImage]:
        data: Any = self.config.data
        if options.skip_bad and isinstance(self.config.data, SkipsBadRows):
            data = replace(data, skip_bad=True)
        check = self.config.check_image
        return convert_files(files, data.read, check, skip_bad=options.skip_bad)

    def compute_metrics(
        self, examples: Sequence[LabelledImage], options: EvaluationOptions
    ) -> dict[str, float]:
        """Return accuracy and macro-averaged F1, in per cent."""
        classes = index_classes(self.labels, examples)
        log_constant_accuracy(count_labels(examples))
        return compute_class_metrics(self.classify(examples), classes)

    @torch.no_grad()
    def classify(self, images: Sequence[LabelledImage]) -> Float[Tensor, "image class"]:
        """Return the probabilities of the classes of images."""

        def compute(first: int) -> Tensor:
            batch = images[first : first + BATCH_ROWS]
            pixels = self.config.read_batch(batch).to(self.device)
            return self.model(pixels).softmax(-1).cpu()

        batches = compute_batches(compute, range(0, len(images), BATCH_ROWS))
        return torch.cat([torch.zeros(0, self.model.classes), *batches])

    def _predict(
        self, examples: Sequence[Image], options: PredictOptions
    ) -> list[ClassPrediction]:
        images = [
            LabelledImage(image, "", f"image {number}")
            for number, image in enumerate(examples, 1)
        ]
        rows = self.classify(images).tolist()
        return [ClassPrediction.of(self.labels, row) for row in rows]

    @torch.no_grad()
    def _attribute(self, example: Image, options: AttributionOptions) -> Attribution:
        """Attribute the class to each patch, by rollout or by the last layer's weights."""
        kinds = options.list_kinds("rollout")
        check_kinds(kinds, self.kinds)
        side = self.config.size // self.config.model.patch
        image = self.config.read_batch([LabelledImage(example, "", "the image")])
        with record(self.model, only=self.model.self_attention) as maps:
            logits = self.model(image.to(self.device))
        self._check_positions({layer.shape[-1] for layer in maps.values()}, side**2)
        config: Any = self.model.config
        queries = slice(None) if config.pooling == "mean" else slice(1)
        heads = maps.stack_layers()[0, :, :, queries].mean(-2).double().cpu().numpy()
        heads = heads[..., -(side**2) :]
        rollout = aggregate_maps(maps, "rollout")[queries].mean(0)
        is_rollout = kinds[0] == "rollout"
        shares = patch_weights(rollout, side, side)
        weights = shares if is_rollout else patch_weights(heads[-1].mean(0), side, side)
        photo = self.config.images.photograph(example, self.config.size)
        prediction: ClassPrediction | TextPrediction
        if self.labels:
            probabilities = logits[0].softmax(-1).tolist()
            prediction = ClassPrediction.of(self.labels, probabilities)
        else:
            is_file = isinstance(example, str | Path)
            prediction = TextPrediction(Path(example).name if is_file else "image")
        values = shares.reshape(1, 1, 1, -1)
        verbs = KIND_VERBS.get("rollout")
        lookups = Lookups(
            heads[:, :, None],
            patch_labels(side, side),
            (prediction.text,),
            alternatives={"rollout": AlternativeMap(values, ("rollout",), verbs=verbs)},
            patches=Patches(photo, side, side),
            first="rollout" if is_rollout else None,
        )
        return Attribution(
            prediction,
            str(prediction) if self.labels else prediction.text,
            (lookups,),
            weights,
            options,
            draw=lambda title: overlay(photo, weights, title=title),
            detail=ROLLOUT_TITLE,
        )

    def _check_positions(self, positions: Collection[int], patches: int) -> None:
        """Raise InputError where the attention is not between the image's patches."""
        marks = min(positions, default=0) - patches
        if len(positions) != 1 or not 0 <= marks <= MOST_MARKS:
            raise InputError(
                f"the attention of this {self.config.model.name} is between "
                f"{sorted(positions)} positions, not between the image's {patches} "
                "patches, so it cannot be drawn on it"
            )
