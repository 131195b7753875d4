"""A trained image classifier: `load(folder).predict(images)`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.record import Maps, record
from regard.attribution.aggregation import LAYERED, ValueNorms, rollout_recorded
from regard.attribution.gradients import compute_contributions, select_log_probabilities
from regard.attribution.kinds import KIND_VERBS, KINDS_WITH_UNIT, Kind
from regard.data.images import ImageTables, LabelledImage
from regard.data.inputs import image_at
from regard.data.records import Records
from regard.data.rows import convert_files
from regard.errors import InputError
from regard.images import Image, Pixels, decode_image
from regard.maps import average_heads, patch_weights
from regard.maps.heads import HeadMaps
from regard.maps.lookups import AlternativeMap, Lookups, Patches, patch_labels
from regard.models.catalog import build_image_classifier
from regard.models.pretrained import PretrainedVision
from regard.models.vit import Vit
from regard.pictures.heatmap import multiples
from regard.pictures.overlay import overlay, overlays
from regard.pictures.views import draw_head_entropies
from regard.shapes import Float
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution, OwnView
from regard.tasks.class_prediction import (
    ClassPrediction,
    compute_class_metrics,
    count_labels,
    index_classes,
    log_constant_accuracy,
)
from regard.tasks.image_classification.config import ImageClassification
from regard.tasks.options import (
    AttributionOptions,
    EvaluationOptions,
    FigureOptions,
    PredictOptions,
    Verb,
    ViewName,
)
from regard.tasks.prediction import TextPrediction
from regard.tasks.row_examples import input_columns
from regard.tasks.run import Run, refuse_one
from regard.work import compute_batches

if TYPE_CHECKING:
    from matplotlib.figure import Figure


MARKS = "[CLS]", "[DIST]"
"""The tokens before the patches."""
MOST_MARKS = 8
"""The most tokens before the patches, such as the registers of DINOv2."""
ROLLOUT_TITLE = (
    "attention rollout: what the class reads of each patch through all layers"
)
ROLLOUT_NOTE = "all layers: attention rollout; last layer: the mean of its heads"
BATCH_ROWS = 64
"""Images in one batch of inference."""
Classifier = Vit | PretrainedVision


@dataclass(frozen=True, eq=False)
class PatchWeights:
    """The attribution of an image's class to its patches."""

    photo: Pixels
    """The part of the photograph that the model reads, in its own resolution."""
    weights: np.ndarray
    """`(row, column)` of the first kind; they sum to 1 unless all are 0."""
    last_layer: np.ndarray
    """`(row, column)`, the attention of the last layer."""
    heads: HeadMaps
    """The lookups of every position, layer and head."""
    patches: np.ndarray
    """`(map, row, column)`, the weights of the class on the patches, as shares."""

    def figure(self, title: str) -> "Figure":
        """Plot the image beside its overlay of weights."""
        return overlay(self.photo, self.weights, title=title)

    def views(self, title: str) -> dict[ViewName, OwnView]:
        """Return the views of all heads, where `weights` are rolled out."""
        heads = self.heads

        def plot_heads(options: FigureOptions) -> "Figure":
            most, names = options.scale, heads.names
            return multiples(self.patches, names, heads.layers, vmax=most, title=title)

        def plot_rollout(options: FigureOptions) -> "Figure":
            maps, names = [self.weights, self.last_layer], ["all layers", "last layer"]
            notes = [ROLLOUT_NOTE]
            return overlays(self.photo, np.stack(maps), names, title=title, notes=notes)

        return {
            "heads": OwnView(plot_heads, frozenset({"scale", "width"})),
            "rollout": OwnView(plot_rollout),
            "entropy": OwnView(lambda options: draw_head_entropies(heads)),
        }


class ImagePass(NamedTuple):
    """A recorded forward pass over one image."""

    probabilities: list[float]
    maps: Maps
    norms: Tensor | None
    """What the last layer's heads write, `(1, head, query, key)`, if recorded."""


@torch.no_grad()
def record_pass(model: Classifier, image: Tensor, *, norms: bool) -> ImagePass:
    """Record a pass over an image `(1, channel, height, width)`."""
    layers: list[Tensor] = []
    measure = ValueNorms(model)

    def measure_last(module: nn.Module, weights: Tensor, value: Tensor) -> Tensor:
        layers[:] = [measure(module, weights, value)]
        return weights

    names = model.self_attention
    with record(model, only=names, measure=measure_last if norms else None) as maps:
        (probabilities,) = model(image).softmax(-1).tolist()
    return ImagePass(probabilities, maps, *layers or [None])


def attribute_image(
    model: Classifier, image: Tensor, kind: Kind, recorded: ImagePass
) -> np.ndarray:
    """Return the weight of each position for the class, the patches last.

    By rollout over all layers, by the weights or the norms of the last layer, averaged
    over heads, or by gradient x input at the patch vectors.
    """
    if kind == "gradient":
        assert isinstance(model, Vit)
        probabilities = recorded.probabilities
        best = [probabilities.index(max(probabilities))]
        (contribution,) = compute_contributions(
            [model.encoder.patches],
            lambda: select_log_probabilities(model(image), best),
        )
        return contribution.shares()[0]
    if kind == "rollout":
        return select_query(model, rollout_recorded(recorded.maps))
    layer = list(recorded.maps.values())[-1] if kind == "weights" else recorded.norms
    assert layer is not None
    return select_query(model, average_heads(layer[0].double().cpu().numpy()))


def select_query(model: Classifier, weights: np.ndarray) -> np.ndarray:
    """Return the row of the first token, or the mean where all are pooled."""
    config: Any = model.config
    return weights.mean(-2) if config.pooling == "mean" else weights[..., 0, :]


def read_pixels(image: LabelledImage, config: ImageClassification) -> Pixels:
    """Read an image as the model's input. Raises InputError for an unreadable one."""
    size, channels = config.size, config.model.channels
    return config.images.pixels(image.image, size, channels, image.place)


def check_image(image: LabelledImage, config: ImageClassification) -> LabelledImage:
    """Return the image. Raises InputError for a file that can't be read."""
    if not isinstance(image.source, np.ndarray):
        read_pixels(image, config)
    return image


class ImageClassificationRun(Run[Image, ClassPrediction]):
    """A trained model with its labels and its run file. Examples are images.

    An imported encoder without classes predicts nothing.
    """

    config: ImageClassification
    model: Classifier
    supports: Mapping[Verb, frozenset[str]] = {
        "predict": frozenset(),
        "evaluate": frozenset({"files", "skip_bad"}),
        "attribute": frozenset({"kinds"}),
    }
    inputs = {"image": bytes}
    data_hint = "give a set of images"

    def __init__(
        self, config: ImageClassification, model: Classifier, labels: Sequence[str]
    ):
        self.config, self.model, self.labels = config, model, tuple(labels)
        if not self.labels:
            self.supports = {"attribute": self.supports["attribute"]}

    @classmethod
    def open(
        cls, run: RunDirectory, config: ImageClassification
    ) -> "ImageClassificationRun":
        """Open the run in a folder, its model with initial weights."""
        labels = run.read_labels()
        return cls(config, build_image_classifier(config.model, len(labels)), labels)

    def parse(self, line: str, place: str = "text 1") -> Image:
        data = self.config.data
        files = data.files if isinstance(data, ImageTables) else None
        return image_at(line, input_columns(self)["image"], files, place)

    def example(self, values: Mapping[str, Any]) -> Image:
        decode_image(values["image"])
        return values["image"]

    @property
    def kinds(self) -> tuple[Kind, ...]:
        if isinstance(self.model, PretrainedVision):
            return ("weights", "rollout")
        return tuple(kind for kind in LAYERED if self.labels or kind != "gradient")

    def description(self) -> dict[str, Any]:
        if not self.labels:
            return super().description()
        model, classes = self.config.model.name, list(self.labels)
        form = {"kind": "image", "model": model, "classes": classes}
        return super().description() | form

    def record(self, example: Image) -> dict[str, Any]:
        return {"image": str(example)} if isinstance(example, str | Path) else {}

    def read(
        self, files: Sequence[Path | Records], options: EvaluationOptions
    ) -> list[LabelledImage]:
        data = self.config.data.skipping(options.skip_bad)
        check = partial(check_image, config=self.config)
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
            return self.model(self._stack(batch)).softmax(-1).cpu()

        batches = compute_batches(compute, range(0, len(images), BATCH_ROWS))
        return torch.cat([torch.zeros(0, self.model.classes), *batches])

    def _stack(self, images: Sequence[LabelledImage]) -> Tensor:
        tensor = self.config.images.tensor
        tensors = [tensor(read_pixels(image, self.config)) for image in images]
        return torch.stack(tensors).to(self.device)

    def _predict(
        self, examples: Sequence[Image], options: PredictOptions
    ) -> list[ClassPrediction]:
        images = number_images(examples)
        rows = self.classify(images).tolist()
        return [ClassPrediction.of(self.labels, row) for row in rows]

    @torch.no_grad()
    def embed(
        self, images: Sequence[Image], *, pool: Literal["mean", "first"] = "mean"
    ) -> Float[Tensor, "image width"]:
        """Return a vector for each image.

        It is the mean of its last states, [CLS] included, or the first.

        Raises:
            InputError: As `predict`.
        """
        refuse_one(images, "images")
        vectors = [torch.zeros(0, self.config.model.width)]
        for image in number_images(images):
            (states,) = self.model.encoder(self._stack([image]))
            vector = states.mean(0) if pool == "mean" else states[0]
            vectors.append(vector[None].float().cpu())
        return torch.cat(vectors)

    def _attribute(self, example: Image, options: AttributionOptions) -> Attribution:
        """Attribute the class to each patch."""
        kinds, model = options.list_kinds("rollout"), self.config.model
        if not self.labels and "gradient" in kinds:
            raise InputError(
                "the run has no classes, so there is no gradient of one; choose weights, "
                "norms or rollout"
            )
        image = self._stack([LabelledImage(example, "", "the image")])
        recorded = record_pass(self.model, image, norms="norms" in kinds)
        side = self.config.size // model.patch
        count = side**2
        labels = patch_labels(side, side)
        marks = count_marks(recorded.maps, count, model.name)
        names = [*MARKS, *(f"token {number}" for number in range(len(MARKS), marks))]
        heads = HeadMaps.of(recorded.maps.lookups([*names[:marks], *labels]))
        needed: set[Kind] = {*kinds, "weights"}
        positions = {
            kind: attribute_image(self.model, image, kind, recorded) for kind in needed
        }
        weights = {
            kind: patch_weights(values, side, side)
            for kind, values in positions.items()
        }
        alternatives = {
            kind: make_alternative(kind, weights[kind], positions[kind])
            for kind in kinds
            if kind != "weights"
        }
        queries = select_query(self.model, heads.weights)[:, -count:]
        queries = queries.reshape(len(heads.layers), -1, 1, count)
        photo = self.config.images.photograph(example, self.config.size)
        prediction = self._name(example, recorded.probabilities)
        lookups = Lookups(
            queries,
            labels,
            (prediction.text,),
            others=alternatives,
            patches=Patches(photo, side, side),
            first=None if kinds[0] == "weights" else kinds[0],
        )
        rows = queries.reshape(-1, count)
        patches = np.stack([patch_weights(row, side, side) for row in rows])
        result = PatchWeights(
            photo, weights[kinds[0]], weights["weights"], heads, patches
        )
        title = str(prediction) if self.labels else prediction.text
        return Attribution(
            prediction,
            title,
            (lookups,),
            result,
            options,
            draw=result.figure,
            views={} if options.kinds else result.views(title),
            detail=ROLLOUT_TITLE,
        )

    def _name(
        self, example: Image, probabilities: Sequence[float]
    ) -> ClassPrediction | TextPrediction:
        """Return the class; without classes the image's name."""
        if self.labels:
            return ClassPrediction.of(self.labels, probabilities)
        is_file = isinstance(example, str | Path)
        return TextPrediction(Path(example).name if is_file else "image")


def number_images(images: Sequence[Image]) -> list[LabelledImage]:
    """Return images without classes, each with its number for messages."""
    return [
        LabelledImage(image, "", f"image {number}")
        for number, image in enumerate(images, 1)
    ]


def count_marks(maps: Maps, patches: int, name: str) -> int:
    """Return the number of positions before the patches.

    Raises:
        InputError: The maps are not of the image's patches.
    """
    positions = {weights.shape[-1] for weights in maps.values()}
    marks = min(positions, default=0) - patches
    if len(positions) != 1 or not 0 <= marks <= MOST_MARKS:
        raise InputError(
            f"the attention of this {name} is between {sorted(positions)} positions, "
            f"not between the image's {patches} patches, so it cannot be drawn on it"
        )
    return marks


def make_alternative(
    kind: Kind, weights: np.ndarray, positions: np.ndarray
) -> AlternativeMap:
    """Return a map of the patches: their shares, or of norms the amounts."""
    has_unit = kind in KINDS_WITH_UNIT
    values = positions[-weights.size :] if has_unit else weights
    return AlternativeMap(
        values.reshape(1, 1, 1, -1),
        (kind,),
        amounts=has_unit,
        verbs=KIND_VERBS.get(kind),
    )
