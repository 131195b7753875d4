"""The run file of image classification."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.attention.record import Maps, record
from regard.attribution.attention import aggregate_maps, check_kinds, text_kinds
from regard.attribution.effects import MapCut, Plan, find_pieces, plan_cuts
from regard.attribution.kinds import KIND_VERBS, Kind
from regard.data.batches import Batch
from regard.data.cache import CachedSet, cache_value
from regard.data.image_shards import ImageShards
from regard.data.images import (
    IdxImages,
    ImageFolders,
    ImageTables,
    LabelledImage,
    digest_image,
)
from regard.data.records import Records
from regard.data.rows import SkipsBadRows, convert_files, convert_sets
from regard.data.splits import Splits
from regard.errors import InputError
from regard.images import Augmentation, Image, Preparation
from regard.maps import patch_weights
from regard.maps.alignment import Words
from regard.maps.lookups import AlternativeMap, ImagePatches, Lookups, patch_labels
from regard.maps.reductions import ROLLOUT, average_maps, refuse_maps
from regard.metrics import Metrics
from regard.models.catalog import IMAGE_CLASSIFIERS, ImageClassifierConfig
from regard.models.pretrained import PretrainedVision
from regard.models.vit import Vit, VitConfig
from regard.pictures.overlay import overlay
from regard.shapes import Float, Int
from regard.storage.run_folder import LABELS, RunDirectory
from regard.tasks.attribution import Attribution
from regard.tasks.base import Setup, TokenBatchObjective, digest_splits, setup_task
from regard.tasks.class_prediction import (
    LISTED,
    ClassPrediction,
    ClassWeights,
    compute_class_metrics,
    compute_class_weights,
    count_labels,
    describe_constant_accuracy,
    index_classes,
    log_constant_accuracy,
    sort_labels,
)
from regard.tasks.image_inputs import ImageRun, ImageSettings
from regard.tasks.options import (
    AttributionOptions,
    EvaluationOptions,
    Json,
    PredictOptions,
    TextPrediction,
)
from regard.tasks.run import ScoredOutput, Task
from regard.tasks.summary import (
    DataSummary,
    count_classes,
    describe_rows,
    encode_for_request,
)
from regard.training.objectives import Carried, Loss
from regard.training.settings import Training
from regard.work import compute_batches


@dataclass(frozen=True, kw_only=True)
class ImageClassification(ImageSettings):
    """The run file of image classification.

    A batch has room for `training.batch_tokens` patches.
    """

    task: Literal["image-classification"] = "image-classification"
    data: ImageFolders | IdxImages | ImageShards | ImageTables
    images: Preparation = field(default_factory=Preparation)
    """The preparation of images; for another `size` positions are interpolated."""
    augmentation: Augmentation = field(default_factory=Augmentation)
    model: ImageClassifierConfig = field(default_factory=VitConfig)
    class_weights: ClassWeights = None
    """The weights of classes in the loss, as of texts."""
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        if self.size % self.model.patch:
            raise ValueError(
                f"images.size is {self.size}, not a whole number of patches of {self.model.patch} pixels; choose "
                f"{self.model.patch} x a whole number"
            )
        self.images.check_channels(self.model.channels)
        if self.positions > self.training.batch_tokens:
            raise ValueError(
                f"training.batch_tokens is {self.training.batch_tokens}, less than one image of {self.positions} "
                "patches; raise it"
            )

    @property
    def positions(self) -> int:
        """The positions of an image: its patches and the tokens before them."""
        return self.model.marks + (self.size // self.model.patch) ** 2


MOST_MARKS = 8
"""The most tokens before the patches, such as the registers of DINOv2."""
ROLLOUT_TITLE = (
    "attention rollout: how much the class attends to each patch, through all layers"
)
WEIGHTS_TITLE = "attention weights: how much the class attends to each patch"
BATCH_ROWS = 64
"""Images in one batch of inference."""


class ImageClassificationRun(ImageRun):
    """A trained model with its labels and its run file. Examples are images.

    An imported encoder without classes predicts nothing.
    """

    does = "Chooses the class of an image."
    config: ImageClassification
    model: Vit | PretrainedVision
    supports = {
        "predict": (),
        "evaluate": ("files", "skip_bad"),
        "attribute": ("kinds", "maps"),
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

    @property
    def cut_modules(self) -> Sequence[str]:
        names = self.model.self_attention
        can_cut = self.labels and "effect" in text_kinds(self.model, names)
        return (names,) if can_cut else ()

    def description(self) -> Json:
        if not self.labels:
            return super().description()
        form = {"kind": "image", "classes": list(self.labels)}
        return super().description() | form | {"model": self.config.model.name}

    def record(self, example: Image) -> Json:
        return {"image": str(example)} if isinstance(example, str | Path) else {}

    def read(
        self, files: Sequence[Path | Records], options: EvaluationOptions
    ) -> list[LabelledImage]:
        data: Any = self.config.data
        if options.skip_bad and isinstance(self.config.data, SkipsBadRows):
            data = replace(data, skip_bad=True)
        check = self.config.check_image
        return convert_files(files, data.read, check, skip_bad=options.skip_bad)

    def log_examples(self, examples: Sequence[LabelledImage]) -> None:
        log_constant_accuracy(count_labels(examples))

    def compute_metrics(
        self, examples: Sequence[LabelledImage], options: EvaluationOptions
    ) -> Metrics:
        """Return accuracy and macro-averaged F1, in per cent."""
        classes = index_classes(self.labels, examples)
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

    def _find_output(
        self, example: Image, options: AttributionOptions, forced: int
    ) -> ScoredOutput:
        image = self.config.read_batch([LabelledImage(example, "", "the image")])
        patches = (self.config.size // self.config.model.patch) ** 2

        def compute_logits() -> Tensor:
            return self.model(image.to(self.device))[0]

        def predict() -> tuple[list[str], ClassPrediction]:
            row = compute_logits().softmax(-1).tolist()
            prediction = ClassPrediction.of(self.labels, row)
            return [prediction.label], prediction

        def plan(maps: Maps, cuts: Sequence[MapCut]) -> Plan:
            """Cut patches, which follow other tokens; the class is the one query."""
            positions = {layer.shape[-1] for layer in maps.values()}
            self._check_positions(positions, patches)
            marks, side = min(positions) - patches, Words(("",) * patches, ())
            config: Any = self.model.config
            queries = None if config.pooling == "mean" else [0]
            planned = []
            for cut in cuts:
                find_pieces(Words(("",), ()), cut.queries)
                find_pieces(side, cut.keys)
                keys = None if cut.keys is None else [marks + key for key in cut.keys]
                rows = cut.queries and queries
                planned.append(MapCut(rows, keys, cut.maps))
            return plan_cuts(maps, planned)

        return ScoredOutput(
            predict()[0],
            self.labels,
            lambda: compute_logits().log_softmax(-1),
            predict,
            largest=LISTED,
            plan=plan,
        )

    @torch.no_grad()
    def _attribute(self, example: Image, options: AttributionOptions) -> Attribution:
        """Attribute the class to each patch, by rollout or by the weights of some maps.

        By default these are the maps of the last layer.
        """
        maps = options.maps
        kinds = options.list_kinds("rollout" if maps is None else "weights")
        is_rollout = kinds[0] == "rollout"
        if is_rollout:
            refuse_maps(maps, ROLLOUT)
        check_kinds(kinds, self.kinds)
        side = self.config.size // self.config.model.patch
        image = self.config.read_batch([LabelledImage(example, "", "the image")])
        with record(self.model, only=self.model.self_attention) as layers:
            logits = self.model(image.to(self.device))
        self._check_positions({layer.shape[-1] for layer in layers.values()}, side**2)
        config: Any = self.model.config
        queries = slice(None) if config.pooling == "mean" else slice(1)
        heads = layers.stack_layers()[0, :, :, queries].mean(-2).double().cpu().numpy()
        heads = heads[..., -(side**2) :]
        rollout = aggregate_maps(layers, "rollout")[queries].mean(0)
        shares = patch_weights(rollout, side, side)
        chosen = heads[-1] if maps is None else heads.reshape(-1, side**2)
        mean = average_maps(chosen[:, None], maps)[0]
        weights = shares if is_rollout else patch_weights(mean, side, side)
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
            patches=ImagePatches(photo, side, side),
            first="rollout" if is_rollout else None,
        )
        return Attribution(
            prediction,
            str(prediction) if self.labels else prediction.text,
            (lookups,),
            weights,
            options,
            draw=lambda title, **options: overlay(
                photo, weights, title=title, **options
            ),
            has_contrast=True,
            detail=ROLLOUT_TITLE if is_rollout else WEIGHTS_TITLE,
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


@dataclass(frozen=True, repr=False)
class ImageBatch(Batch):
    """Images of one size, and the index of each one's class."""

    pixels: Float[Tensor, "batch channel height width"]
    classes: Int[Tensor, " batch"]


class ImageClassificationObjective(TokenBatchObjective[LabelledImage, ImageBatch]):
    """The cross-entropy of the classes."""

    metric, higher_is_better, unit = "accuracy", True, "images"

    def __init__(
        self,
        splits: Splits[LabelledImage],
        config: ImageClassification,
        labels: Sequence[str],
        weights: Sequence[float] = (),
    ):
        """Prepare batches; `weights` are those of the classes in the loss."""
        self.config = config
        self.classes = index_classes(labels, splits.train)
        self.valid_classes = index_classes(labels, splits.valid)
        self.weights = torch.tensor(weights) if weights else None
        super().__init__(
            splits.train,
            splits.valid,
            config.training,
            [(config.positions, config.positions)] * len(splits.train),
            "images",
        )

    def batch(self, epoch: int, indices: list[int]) -> ImageBatch:
        seed = self.settings.seed
        augment = self.config.augment
        images = [augment(self.train[index], seed, epoch, index) for index in indices]
        classes = torch.tensor([self.classes[index] for index in indices])
        return ImageBatch(torch.stack(images), classes)

    def loss(
        self,
        model: nn.Module,
        batch: ImageBatch,
        update: int,
        carried: Carried | None = None,
    ) -> Loss:
        weights = None if self.weights is None else self.weights.to(batch.pixels.device)
        total = functional.cross_entropy(
            model(batch.pixels),
            batch.classes,
            weights,
            reduction="sum",
            label_smoothing=self.settings.label_smoothing,
        )
        return Loss(total, len(batch.classes))

    def validate(self, model: nn.Module) -> Metrics:
        run = ImageClassificationRun(self.config, model, ())
        return compute_class_metrics(run.classify(self.valid), self.valid_classes)


def setup(config: ImageClassification, folder: RunDirectory, processes: int) -> Setup:
    """Read and check every image, and build model and objective.

    Raises:
        InputError: The images or the model are invalid.
    """
    splits = config.data.load()
    check = config.check_image
    if isinstance(splits.train, CachedSet):
        cached = splits.train
        reading = f"read as {config.images} {config.size} {config.model.channels}"
        cache_value(cached, reading, lambda: len(list(map(check, cached))))
        splits = Splits(
            cached, *(list(map(check, s)) for s in (splits.valid, splits.test))
        )
    else:
        splits = convert_sets(splits, check, config.data)
    counts = count_labels(splits.train)
    labels = sort_labels(counts, config.data.train, config.training.start)
    index_classes(labels, splits.test)
    images, warnings = config.describe(splits.train)
    first = splits.train[0]
    summary = DataSummary(
        unit="images",
        rows=describe_rows(config.data, splits),
        classes=count_classes(counts),
        images=images,
        example={"image": first.place, "class": first.label},
        request={"image": encode_for_request(first.image)},
        warnings=warnings,
    )
    weights = compute_class_weights(config.class_weights, labels, counts)
    return setup_task(
        IMAGE_CLASSIFIERS.build(config.model, len(labels)),
        ImageClassificationObjective(splits, config, labels, weights),
        splits,
        digest_splits(
            splits, lambda image: f"{digest_image(image.image)}\0{image.label}\n"
        ),
        summary,
        details=[f"{len(labels)} classes", f"{config.positions} positions an image"],
        files={LABELS: labels},
        fresh=("output.", "head."),
        simplest=describe_constant_accuracy(count_labels(splits.valid)),
    )


TASK = Task(
    ImageClassification,
    setup,
    ImageClassificationRun,
    command="regard predict {} IMAGE",
)
