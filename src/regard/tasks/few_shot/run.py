"""Few-shot classifiers: `load(folder).predict([FewShotExample(support, query)])`."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor, nn
from torch.nn import functional

from regard.attention.record import record
from regard.data.batches import Batch
from regard.data.images import LabelledImage
from regard.data.records import Records, parse_object
from regard.data.rows import BadRecord, SkipsBadRows
from regard.data.splits import Splits
from regard.errors import InputError
from regard.images import Image, Pixels, decode_image
from regard.maps.lookups import Lookups
from regard.models.snail import FewShotSnail
from regard.pictures.panels import episode as plot_episode
from regard.pictures.panels import layer_names
from regard.shapes import Float, Int
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution
from regard.tasks.base import Setup, TokenBatchObjective, digest, setup_task
from regard.tasks.class_prediction import ClassPrediction
from regard.tasks.few_shot.data import (
    Episode,
    FewShot,
    ImageClasses,
    list_variants,
    sample_episode,
    transform,
)
from regard.tasks.options import AttributionOptions, EvaluationOptions, PredictOptions
from regard.tasks.run import Run
from regard.tasks.summary import (
    DataSummary,
    Lengths,
    describe_images,
    describe_rows,
    encode_for_request,
)
from regard.training.objectives import Carried, Loss
from regard.work import compute_batches

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUERY = "query"
"""The label of the query image."""
TITLE_CLASSES = 8
"""The most other classes whose probabilities a picture has."""
FORM = '{"examples": {"cat": ["1.png"], "dog": ["2.png"]}, "image": "3.png"}'
"""An example as a line of JSON: paths of images by class, and of the query image."""
BATCH_ROWS = 32
"""Episodes in one batch of evaluation."""
Pool = Sequence[UInt8[np.ndarray, "_image height width channel"]]
"""The images of each class, as the model reads them."""


@dataclass(frozen=True, eq=False)
class FewShotExample:
    """Support images by the name of their class, and a query image."""

    support: Mapping[str, Sequence[Image]]
    query: Image


@dataclass(frozen=True, eq=False)
class EpisodeWeights:
    """The weights of each image of an episode on itself and the images before it."""

    query: UInt8[np.ndarray, "height width channel"]
    support: UInt8[np.ndarray, "image height width channel"]
    labels: tuple[str, ...]
    """The classes of the support images."""
    maps: np.ndarray
    """`(layer, image, image)` with the query last; a row sums to 1."""

    @property
    def weights(self) -> np.ndarray:
        """The weights of the query on every image, in the last layer."""
        return self.maps[-1, -1]

    def lookups(self) -> tuple[Lookups, Lookups]:
        """Return the lookups of the query and of every image, in all layers.

        Images are named by class, and by number where a class has several.
        """
        numbered = len(set(self.labels)) < len(self.labels)
        names = []
        for index, label in enumerate(self.labels):
            number = self.labels[:index].count(label) + 1
            names.append(f"{label} {number}" if numbered else label)
        labels = (*names, QUERY)
        images = np.concatenate([self.support, self.query[None]])
        layers = layer_names(len(self.maps))
        query = self.maps[:, None, -1:]
        return (
            Lookups(query, labels, (QUERY,), "the query image", layers, images=images),
            Lookups(
                self.maps[:, None], labels, labels, "every image", layers, images=images
            ),
        )

    def figure(self, title: str) -> "Figure":
        """Plot the images, framed by the weights of the query in each layer."""
        weights = self.maps[:, -1]
        return plot_episode(self.query, self.support, self.labels, weights, title=title)


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
    data_hint = "give a set of images"

    def __init__(self, config: FewShot, model: FewShotSnail):
        self.config, self.model = config, model

    @classmethod
    def open(cls, run: RunDirectory, config: FewShot) -> "FewShotRun":
        """Open the run in a folder, its model with initial weights."""
        return cls(config, build(config))

    def parse(self, line: str, place: str = "text 1") -> FewShotExample:
        record, fault = parse_object(line, FORM)
        match record:
            case {"examples": dict(support), "image": str(query)} if all(
                are_paths(paths) for paths in support.values()
            ):
                return FewShotExample(support, query)
        raise InputError(f"{place}: {fault}")

    def example(self, values: Mapping[str, Any]) -> FewShotExample:
        channels = self.config.model.channels
        support = {
            label: [decode_image(content, channels) for content in images]
            for label, images in values["examples"].items()
        }
        return FewShotExample(support, decode_image(values["image"], channels))

    def record(self, example: FewShotExample) -> dict[str, Any]:
        return {"image": str(example.query)}

    def read(
        self, files: Sequence[Path | Records], options: EvaluationOptions
    ) -> list[LabelledImage]:
        data = self.config.data.skipping(options.skip_bad)
        return [image for file in files for image in data.read(str(file))]

    def convention(self) -> str:
        data = self.config.data
        return f"accuracy is over {data.test_episodes:,} {data.form}"

    def _load_validation_set(self, data: Any) -> list[LabelledImage]:
        if data.train is None:
            return []
        return [image for images in data.load().valid.values() for image in images]

    def compute_metrics(
        self, examples: Sequence[LabelledImage], options: EvaluationOptions
    ) -> dict[str, float]:
        """Return the accuracy in `test_episodes` of the images' classes.

        Raises:
            InputError: Classes or their images are too few.
        """
        data = self.config.data
        classes = data.group_by_class(examples, "the images for evaluation")
        pool = read_pool(classes, self.config)
        return measure_episodes(self.model, pool, self.config, data.test_episodes)

    def _predict(
        self, examples: Sequence[FewShotExample], options: PredictOptions
    ) -> list[ClassPrediction]:
        return [self._attend(example)[0] for example in examples]

    @torch.no_grad()
    def _attribute(
        self, example: FewShotExample, options: AttributionOptions
    ) -> Attribution:
        prediction, weights = self._attend(example)
        classes = [
            f"{label} {probability:.2f}"
            for label, probability in prediction.probabilities.items()
            if label != prediction.label
        ]
        ellipsis = ", …" if len(classes) > TITLE_CLASSES else ""
        listed = f"{', '.join(classes[:TITLE_CLASSES])}{ellipsis}"
        return Attribution(
            prediction,
            str(prediction),
            weights.lookups(),
            weights,
            options,
            draw=weights.figure,
            detail=f"probabilities of the other classes: {listed}",
        )

    def _attend(
        self, example: FewShotExample
    ) -> tuple[ClassPrediction, EpisodeWeights]:
        self._check(example.support)
        names = list(example.support)
        labels, images = [], []
        for index, name in enumerate(names):
            for image in example.support[name]:
                labels.append(index)
                location = f"example {len(labels)}"
                labelled = LabelledImage(image, "", location)
                images.append(read_pixels(labelled, self.config))
        query = LabelledImage(example.query, "", "the query image")
        pixels = np.stack([*images, read_pixels(query, self.config)])
        inputs = self.config.images.tensor(pixels)[None].to(self.device)
        numbers = torch.tensor([labels], device=self.device)
        with record(self.model, only=self.model.self_attention) as maps:
            logits = self.model(inputs, numbers)
        weights = maps.stack_layers()[0, :, 0].double().cpu().numpy()
        prediction = ClassPrediction.of(names, logits[0, 0].softmax(-1).tolist())
        classes = tuple(names[label] for label in labels)
        return prediction, EpisodeWeights(pixels[-1], pixels[:-1], classes, weights)

    def _check(self, support: Mapping[str, Sequence[Image]]) -> None:
        ways, shots = self.config.data.ways, self.config.data.shots
        if len(support) != ways:
            classes = "1 class" if len(support) == 1 else f"{len(support)} classes"
            raise InputError(
                f"got examples of {classes}; the model was trained for {ways} classes, "
                "give examples of as many"
            )
        for name, images in support.items():
            if len(images) != shots:
                raise InputError(
                    f"class {name!r} has {len(images)} examples; the model was trained for "
                    f"{shots} each"
                )


def build(config: FewShot) -> FewShotSnail:
    """Build the model with initial weights."""
    return FewShotSnail(config.data.ways, config.data.shots, config.model)


def are_paths(value: object) -> bool:
    """Return whether a value of JSON is a list of texts."""
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


@dataclass(frozen=True, repr=False)
class EpisodeBatch(Batch):
    """Support images followed by query images, labels and classes of the queries."""

    images: Float[Tensor, "batch image channel height width"]
    labels: Int[Tensor, "batch support"]
    classes: Int[Tensor, "batch query"]


def read_pool(
    classes: Mapping[str, Sequence[LabelledImage]], config: FewShot
) -> list[np.ndarray]:
    """Read the images of each class. Raises InputError for an unreadable one."""
    return [
        np.stack([read_pixels(image, config) for image in images])
        for images in classes.values()
    ]


def read_pixels(image: LabelledImage, config: FewShot) -> Pixels:
    """Read an image as the model's input. Raises InputError for an unreadable one."""
    side, channels = config.model.side, config.model.channels
    return config.images.pixels(image.image, side, channels, image.place)


def pixels_in(episode: Episode, pool: Pool) -> list[np.ndarray]:
    """Return the images of an episode, the queries last."""
    refs = (*episode.support, *episode.queries)
    return [transform(pool[ref.source][ref.image], ref) for ref in refs]


def collate_episodes(
    episodes: Sequence[tuple[Episode, Sequence[Pixels]]], config: FewShot
) -> EpisodeBatch:
    """Collate episodes with their images. Raises ValueError for no episodes."""
    if not episodes:
        raise ValueError("collate_episodes() got no episodes; expected at least one")
    images = np.stack([np.stack(pixels) for _, pixels in episodes])
    return EpisodeBatch(
        config.images.tensor(images),
        torch.tensor([episode.labels for episode, _ in episodes]),
        torch.tensor([episode.targets for episode, _ in episodes]),
    )


class FewShotObjective(TokenBatchObjective[int, EpisodeBatch]):
    """The cross-entropy of the query images' classes, and that of prototypes."""

    metric, higher_is_better, unit = "accuracy", True, "images"

    def __init__(self, train: Pool, valid: Pool, config: FewShot):
        self.config, self.pool = config, train
        lengths = [(config.count, config.count)] * config.data.episodes
        episodes = range(config.data.episodes)
        super().__init__(episodes, valid, config.training, lengths, "episodes")

    def batch(self, epoch: int, indices: list[int]) -> EpisodeBatch:
        episodes = [self._sample(epoch, index) for index in indices]
        return collate_episodes(episodes, self.config)

    def loss(
        self,
        model: nn.Module,
        batch: EpisodeBatch,
        update: int,
        carried: Carried | None = None,
    ) -> Loss:
        assert isinstance(model, FewShotSnail)
        total = episode_loss(model, batch, self.config.prototypes)
        episodes, images = batch.images.shape[:2]
        return Loss(total, batch.classes.numel(), read=episodes * images)

    def validate(self, model: nn.Module) -> dict[str, float]:
        assert isinstance(model, FewShotSnail)
        count = self.config.data.valid_episodes
        return measure_episodes(model, self.valid, self.config, count)

    def _sample(self, epoch: int, index: int) -> tuple[Episode, list[Pixels]]:
        """Sample an episode of an epoch, with augmented images."""
        data, seed = self.config.data, self.settings.seed
        episode = sample_episode(
            [len(images) for images in self.pool],
            data.ways,
            data.shots,
            f"{data.seed}/{seed}/{epoch}/{index}",
            questions=data.questions,
            rotations=data.rotations,
            mirrored=data.mirrored,
        )
        images = pixels_in(episode, self.pool)
        first = index * self.config.count
        return episode, [
            self.config.augmentation(pixels, seed, epoch, number)
            for number, pixels in enumerate(images, first)
        ]


def episode_loss(
    model: FewShotSnail, batch: EpisodeBatch, prototypes: float = 0.0
) -> Float[Tensor, ""]:
    """Return the cross-entropy of the network, and of prototypes on its codes."""
    codes = model.codes(batch.images)
    total = cross_entropy(model.classify(codes, batch.labels), batch.classes)
    if prototypes:
        logits = model.prototypes(codes, batch.labels)
        total = total + prototypes * cross_entropy(logits, batch.classes)
    return total


def cross_entropy(
    logits: Float[Tensor, "batch query way"], classes: Int[Tensor, "batch query"]
) -> Float[Tensor, ""]:
    """Return the cross-entropy, summed over all queries."""
    rows = logits.flatten(0, 1)
    return functional.cross_entropy(rows, classes.flatten(), reduction="sum")


def iterate_episodes(
    pool: Pool, config: FewShot, count: int, seed: str
) -> Iterator[EpisodeBatch]:
    """Yield `count` episodes in batches, without rotations."""
    data, sizes = config.data, [len(images) for images in pool]
    for first in range(0, count, BATCH_ROWS):
        episodes = []
        for number in range(first, min(first + BATCH_ROWS, count)):
            episode = sample_episode(sizes, data.ways, data.shots, f"{seed}/{number}")
            episodes.append((episode, pixels_in(episode, pool)))
        yield collate_episodes(episodes, config)


@torch.no_grad()
def measure_episodes(
    model: FewShotSnail, pool: Pool, config: FewShot, count: int
) -> dict[str, float]:
    """Return the accuracy in `count` episodes and its standard error, in per cent."""
    device = next(model.parameters()).device

    def count_right(batch: EpisodeBatch) -> int:
        logits = model(batch.images.to(device), batch.labels.to(device))
        return int((logits.argmax(-1).cpu() == batch.classes).sum())

    seed = f"{config.data.seed}/measured"
    batches = iterate_episodes(pool, config, count, seed)
    share = sum(compute_batches(count_right, batches)) / count
    return {
        "accuracy": 100 * share,
        "standard-error": 100 * (share * (1 - share) / count) ** 0.5,
    }


def setup(config: FewShot, folder: RunDirectory, processes: int) -> Setup:
    """Read the images and build model and objective.

    Raises:
        InputError: Images or classes are too few, or an image can't be read.
    """
    data, classes = config.data, config.data.load()
    try:
        train, valid, _ = (
            read_pool(images, config)
            for images in (classes.train, classes.valid, classes.test)
        )
    except InputError as error:
        if isinstance(data, SkipsBadRows):
            raise BadRecord(str(error)) from error
        raise
    variants = len(list_variants(rotations=data.rotations, mirrored=data.mirrored))
    splits = Splits(list(classes.train), list(classes.valid), list(classes.test))
    details = [f"{data.valid_episodes:,} validation {data.form}"]
    if variants > 1:
        details.append(f"each class in {variants} variants, rotated or mirrored")
    return setup_task(
        build(config),
        FewShotObjective(train, valid, config),
        splits,
        digest(digest_images([*train, *valid])),
        summarize(config, classes),
        details=details,
        tests=[image for images in classes.test.values() for image in images],
        simplest=f"{100 / data.ways:.3g} % of the episodes are right by chance",
    )


def summarize(config: FewShot, classes: ImageClasses) -> DataSummary:
    """Summarize the classes, and what the model reads of their images."""
    train = list(classes.train.values())
    sets = Splits(train, list(classes.valid.values()), list(classes.test.values()))
    images, warnings = describe_images(
        [image.image for images in train for image in images],
        config.model.side,
        config.model.channels,
        "model.side",
    )
    support = {
        members[0].label: [
            encode_for_request(image.image) for image in members[: config.data.shots]
        ]
        for members in train[: config.data.ways]
    }
    return DataSummary(
        unit="classes",
        rows=describe_rows(config.data, sets),
        lengths={"images a class": Lengths.of([len(members) for members in train])},
        images=images,
        example={"image": train[0][0].place, "class": train[0][0].label},
        request={
            "examples": json.dumps(support, ensure_ascii=False),
            "image": encode_for_request(train[0][-1].image),
        },
        warnings=warnings,
    )


def digest_images(pool: Pool) -> Iterable[str]:
    """Return a line for each class: the digest of its images."""
    return (hashlib.sha256(images.tobytes()).hexdigest() + "\n" for images in pool)
