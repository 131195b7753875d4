"""Few-shot classification of images by SNAIL (Mishra 2018, 1707.03141).

`load(folder).predict([FewShotExample(support, query)])` classifies a query image by a few
images of each class. Training samples episodes of a few classes from sets whose classes are
distinct.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import UInt8
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from regard.attention.record import record
from regard.config.file_kinds import Kind
from regard.data.arrays import arrays
from regard.data.batches import Batch
from regard.data.images import Depth, ImageFolders, ImageRows, LabelledImage
from regard.data.records import Records, parse_object
from regard.data.rows import BadRecord
from regard.data.splits import Splits, check_share, choose_groups
from regard.errors import InputError
from regard.images import Augmentation, Image, Pixels, Preparation, read_image
from regard.maps.lookups import Lookups
from regard.models.snail import FewShotSnail, SnailConfig
from regard.pictures.panels import episode as plot_episode
from regard.pictures.panels import layer_names
from regard.shapes import Float, Int
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution
from regard.tasks.base import Setup, TokenBatchObjective, digest, setup_task
from regard.tasks.class_prediction import ClassPrediction
from regard.tasks.options import AttributionOptions, EvaluationOptions, PredictOptions
from regard.tasks.run import Run
from regard.tasks.summary import (
    DataSummary,
    Lengths,
    describe_images,
    describe_rows,
    encode_for_request,
)
from regard.tasks.task import LazyTask
from regard.training.objectives import Carried, Loss
from regard.training.settings import Amount, Training
from regard.work import compute_batches

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TASK = LazyTask(
    __name__,
    ":FewShot",
    ":setup",
    ":FewShotRun",
    command="""regard predict {} '{"examples": {"a": ["a1.png"], ...}, "image": "x.png"}'""",
)
Count = Annotated[int, Field(ge=1, le=1_000_000)]
SmallCount = Annotated[int, Field(ge=1, le=1_000)]
Classes = dict[str, list[LabelledImage]]
"""Images by their class."""
Pool = Sequence[UInt8[np.ndarray, "_image height width channel"]]
"""The images of each class, as the model reads them."""
QUERY = "query"
"""The label of the query image."""
TITLE_CLASSES = 8
"""The most other classes whose probabilities a picture has."""
FORM = '{"examples": {"cat": ["1.png"], "dog": ["2.png"]}, "image": "3.png"}'
"""An example as a line of JSON: paths of images by class, and of the query image."""
BATCH_ROWS = 32
"""Episodes in one batch of evaluation."""


@dataclass(frozen=True, kw_only=True)
class EpisodeSets(ABC):
    """Episodes of `ways` classes with `shots` support images each and query images."""

    kind: str = ""
    train: str | None = None
    valid: str | None = None
    ways: Annotated[int, Field(ge=2, le=1_000)] = 5
    """The number of classes of an episode."""
    shots: SmallCount = 1
    """The number of support images of each class."""
    questions: SmallCount = 1
    """The number of query images of an episode in training."""
    episodes: Count = 20_000
    """The number of episodes of an epoch."""
    valid_episodes: Count = 500
    """The number of episodes of the validation set."""
    test_episodes: Count = 1_000
    """The number of episodes of the test set."""
    rotations: bool = True
    """Whether an image rotated by quarter turns is of another class in training."""
    mirrored: bool = False
    """Whether a mirrored image is of another class in training."""
    held_out: float = 0.1
    """The share of the classes that is held out where there is no `valid`."""
    seed: int = 1
    skip_bad: bool = False
    """Skip files that are no images or broken ones, and count them."""

    def __post_init__(self) -> None:
        check_share(self.held_out, "episodes")

    @abstractmethod
    def read(self, path: str) -> list[LabelledImage]:
        """Read the images of a set.

        Raises:
            InputError: The file is missing, damaged or of another format.
        """

    @abstractmethod
    def take_test_set(self, classes: Classes) -> Classes:
        """Return the classes of the test set, which are not left in `classes`."""

    def load(self) -> dict[str, Classes]:
        """Read the classes of `train`, `valid` and `test`; no class is in two of them.

        Raises:
            InputError: A record is invalid, or a set has too few classes or images.
        """
        if self.train is None:
            raise InputError(
                "data.train is not given; expected images, as --set data.train=PATH"
            )
        train = group_by_class(self.read(self.train))
        test = self.take_test_set(train)
        if self.valid is None:
            valid = self._hold_out(train)
        else:
            valid = group_by_class(self.read(self.valid))
        sets = {"train": train, "valid": valid, "test": test}
        for first, second in combinations(sets, 2):
            if shared := sorted(sets[first].keys() & sets[second].keys()):
                raise InputError(
                    f"{self.train}: {len(shared)} classes of the set {first} are in the "
                    f"set {second} too, such as {shared[0]!r}; give each set classes of "
                    "its own"
                )
        for name, classes in sets.items():
            queries = -(-self.questions // self.ways) if name == "train" else 1
            self.check_sizes(classes, f"{self.train}, {name}", queries)
        return sets

    def tests(self) -> list[LabelledImage]:
        """Return the images of the test set."""
        return [image for images in self.load()["test"].values() for image in images]

    @property
    def form(self) -> str:
        """A description of the episodes, and how many are right by chance."""
        plural = "s" if self.shots > 1 else ""
        return (
            f"episodes of {self.ways} classes (ways) with {self.shots} image{plural} of "
            f"each (shots); {100 / self.ways:.3g} % are right by chance"
        )

    def check_sizes(self, classes: Classes, name: str, queries: int = 1) -> None:
        """Raise InputError where an episode needs more classes, or images of a class.

        Args:
            classes: Images of one set; none at all are allowed.
            name: What to call the set in an error.
            queries: The most query images of one class in an episode.
        """
        if 0 < len(classes) < self.ways:
            raise InputError(
                f"{name}: {len(classes)} classes; an episode of {self.ways} ways needs as "
                "many; lower data.ways, hold out more with data.held_out, or add classes"
            )
        needed = self.shots + queries
        for label, members in classes.items():
            if len(members) < needed:
                raise InputError(
                    f"{members[0].place}: class {label!r} has {len(members)} images; an "
                    f"episode of {self.shots} shots needs {needed}, {queries} as "
                    "queries; add images or lower data.shots or data.questions"
                )

    def _hold_out(self, classes: Classes) -> Classes:
        """Take classes at random, at least as many as an episode needs."""
        labels = list(classes)
        if len(labels) < 2 * self.ways:
            raise InputError(
                f"{self.train}: {len(labels)} classes, but an episode needs {self.ways} "
                "(data.ways) to train on and as many others to validate; lower "
                "data.ways, add classes, or name data.valid"
            )
        share = max(self.held_out, self.ways / len(labels))
        held_out = {labels[row] for row in choose_groups(labels, share, self.seed)}
        return {label: classes.pop(label) for label in labels if label in held_out}


def group_by_class(images: Sequence[LabelledImage]) -> Classes:
    """Group images by class, in the order of the first of each."""
    classes: Classes = {}
    for image in images:
        classes.setdefault(image.label, []).append(image)
    return classes


@dataclass(frozen=True, kw_only=True)
class SeparateSets(EpisodeSets):
    """Sets with a path of their own each. No name of a class is in two of them."""

    describing: ClassVar[tuple[str, ...]] = ("held_out",)
    """Keys of one data set: of Omniglot's thousand classes a few suffice."""

    test: str | None = None

    def take_test_set(self, classes: Classes) -> Classes:
        return {} if self.test is None else group_by_class(self.read(self.test))


@dataclass(frozen=True, kw_only=True)
class FolderEpisodes(SeparateSets):
    """Folders with a folder of image files for each class."""

    kind: Literal["class-folders"] = "class-folders"
    depth: Depth = None
    """With 2, the classes are the folders in those folders."""

    recognised: ClassVar[tuple[Kind, ...]] = ("folders",)

    def read(self, path: str) -> list[LabelledImage]:
        return list(ImageFolders(skip_bad=self.skip_bad, depth=self.depth).read(path))


@dataclass(frozen=True, kw_only=True)
class TableEpisodes(ImageRows, SeparateSets):
    """Tables of images and their classes, as those of a classifier of images."""

    kind: Literal["class-tables"] = "class-tables"

    def read(self, path: str) -> list[LabelledImage]:
        return list(self.read_images(path))


@dataclass(frozen=True, kw_only=True)
class OmniglotEpisodes(EpisodeSets):
    """An .npz file of characters, each of which is a class.

    It has `images` (uint8, 1 is ink), the number of each one's `alphabet` and
    `character`, and `alphabet_names`. Ink is read as black on white.
    """

    kind: Literal["omniglot"] = "omniglot"
    test: tuple[str, ...] = ()
    """The alphabets of the test set."""

    recognised: ClassVar[tuple[Kind, ...]] = ("npz",)

    def take_test_set(self, classes: Classes) -> Classes:
        alphabets = {label: label.split("/")[0] for label in classes}
        if unknown := sorted({*self.test} - {*alphabets.values()}):
            raise InputError(
                f"{self.train}: has no alphabet {unknown[0]!r}; expected of "
                f"{', '.join(dict.fromkeys(alphabets.values()))}"
            )
        return {
            label: classes.pop(label)
            for label, alphabet in alphabets.items()
            if alphabet in self.test
        }

    def read(self, path: str) -> list[LabelledImage]:
        keys = ("images", "alphabet", "character", "alphabet_names")
        images, alphabets, characters, names = arrays(path, keys)
        fits = images.dtype == np.uint8 and images.ndim == 3 and names.ndim == 1
        for numbers in (alphabets, characters):
            is_integer = np.issubdtype(numbers.dtype, np.integer)
            fits = fits and is_integer and numbers.shape == images.shape[:1]
        if not fits or not all(0 <= number < len(names) for number in alphabets):
            raise InputError(
                f"{path}: expected images of uint8 (image, height, width), whole numbers "
                "alphabet and character of each, and alphabet_names, a list of which "
                "alphabet is an index"
            )
        labelled = []
        for index, image in enumerate(images):
            label = f"{names[alphabets[index]]}/{characters[index]}"
            pixels = (image == 0) * np.uint8(255)
            labelled.append(LabelledImage(pixels, label, f"{path}:{index + 1}"))
        return labelled


@dataclass(frozen=True, kw_only=True)
class FewShot:
    """The run file of few-shot classification.

    A batch has room for `training.batch_tokens` images.
    """

    task: Literal["few-shot"] = "few-shot"
    data: FolderEpisodes | TableEpisodes | OmniglotEpisodes
    images: Preparation = field(default_factory=Preparation)
    augmentation: Augmentation = field(default_factory=Augmentation)
    model: SnailConfig = field(default_factory=SnailConfig)
    prototypes: Amount = 0.0
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        if self.images.size not in (None, self.model.side):
            raise ValueError(
                f"images.size is {self.images.size}, but model.side {self.model.side}; "
                "set that alone"
            )
        self.images.check_channels(self.model.channels)
        if self.augmentation.flip:
            raise ValueError(
                "augmentation.flip mirrors half of a class; data.mirrored makes it "
                "another class"
            )
        if self.training.label_smoothing:
            raise ValueError(
                "training.label_smoothing is set; episodes are not smoothed, set it to 0"
            )

    def build(self) -> FewShotSnail:
        """Build the model with initial weights."""
        return FewShotSnail(self.data.ways, self.data.shots, self.model)

    def read_pixels(self, image: LabelledImage) -> Pixels:
        """Read an image as the model's input. Raises InputError for an unreadable one."""
        side = self.model.side
        channels = self.model.channels
        return self.images.pixels(image.image, side, channels, image.place)

    def read_pool(self, classes: Classes) -> Pool:
        """Read the images of each class. Raises InputError for an unreadable one."""
        return [
            np.stack([self.read_pixels(image) for image in images])
            for images in classes.values()
        ]


@dataclass(frozen=True)
class ImageRef:
    """An image of an episode, by its indices and its transformation."""

    source: int
    """The index of its class."""
    image: int
    """The index in the class."""
    quarters: int = 0
    """Its rotation in quarter turns."""
    mirrored: bool = False
    """Whether it is mirrored first."""

    def read(self, pool: Pool) -> np.ndarray:
        """Return the mirrored and rotated image."""
        pixels = pool[self.source][self.image]
        return np.rot90(pixels[:, ::-1] if self.mirrored else pixels, self.quarters)


@dataclass(frozen=True)
class Episode:
    """Support images with their labels, and query images with theirs."""

    support: tuple[ImageRef, ...]
    labels: tuple[int, ...]
    queries: tuple[ImageRef, ...]
    targets: tuple[int, ...]

    def read(self, pool: Pool) -> list[np.ndarray]:
        """Return the images, the queries last."""
        return [ref.read(pool) for ref in (*self.support, *self.queries)]


def sample_episode(
    pool: Pool, data: EpisodeSets, seed: str, *, training: bool = False
) -> Episode:
    """Sample an episode, as a function of the seed only.

    Classes, labels and order are random. The query images cover as many classes as
    possible.

    Args:
        pool: The images of each class.
        data: The `data:` section.
        seed: A text, which is hashed with SHA-512.
        training: Whether to sample several queries, and rotated and mirrored classes.
    """
    random = Random(seed)
    ways = data.ways
    shots = data.shots
    questions = data.questions if training else 1
    turns = 4 if training and data.rotations else 1
    mirrors = 2 if training and data.mirrored else 1
    variants = mirrors * turns
    classes = random.sample(range(len(pool) * variants), ways)
    first = random.randrange(ways)
    support = []
    queries = []
    for label, number in enumerate(classes):
        variant, source = divmod(number, len(pool))
        mirror, quarters = divmod(variant, turns)
        most_queries = -(-questions // ways)
        available = range(len(pool[source]))
        images = random.sample(available, shots + most_queries)
        refs = [ImageRef(source, image, quarters, mirror == 1) for image in images]
        for ref in refs[:shots]:
            support.append((ref, label))
        turn = (label - first) % ways
        count = len(range(turn, questions, ways))
        for ref in refs[shots : shots + count]:
            queries.append((ref, label))
    random.shuffle(support)
    images, labels = zip(*support, strict=True)
    query_images, targets = zip(*queries, strict=True)
    return Episode(images, labels, query_images, targets)


@dataclass(frozen=True, repr=False)
class EpisodeBatch(Batch):
    """Support images followed by query images, labels and classes of the queries."""

    images: Float[Tensor, "batch image channel height width"]
    labels: Int[Tensor, "batch support"]
    classes: Int[Tensor, "batch query"]


def collate_episodes(
    episodes: Sequence[tuple[Episode, Sequence[Pixels]]], config: FewShot
) -> EpisodeBatch:
    """Collate at least one episode with its images."""
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
        self.config = config
        self.pool = train
        data = config.data
        self.size = data.ways * data.shots + data.questions
        lengths = [(self.size, self.size)] * data.episodes
        episodes = range(data.episodes)
        super().__init__(episodes, valid, config.training, lengths, "episodes")

    def batch(self, epoch: int, indices: list[int]) -> EpisodeBatch:
        data = self.config.data
        seed = self.settings.seed
        episodes = []
        for index in indices:
            name = f"{data.seed}/{seed}/{epoch}/{index}"
            episode = sample_episode(self.pool, data, name, training=True)
            images = [
                self.config.augmentation(pixels, seed, epoch, number)
                for number, pixels in enumerate(
                    episode.read(self.pool), index * self.size
                )
            ]
            episodes.append((episode, images))
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
        count = self.config.data.valid_episodes
        return measure_episodes(model, self.valid, self.config, count)


def episode_loss(
    model: FewShotSnail, batch: EpisodeBatch, prototypes: float = 0.0
) -> Float[Tensor, ""]:
    """Return the summed cross-entropy of the network, and of prototypes on its codes."""
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


@torch.no_grad()
def measure_episodes(
    model: nn.Module, pool: Pool, config: FewShot, count: int
) -> dict[str, float]:
    """Return the accuracy in `count` episodes and its standard error, in per cent."""
    device = next(model.parameters()).device

    def count_right(first: int) -> int:
        episodes = []
        for number in range(first, min(first + BATCH_ROWS, count)):
            seed = f"{config.data.seed}/measured/{number}"
            episode = sample_episode(pool, config.data, seed)
            episodes.append((episode, episode.read(pool)))
        batch = collate_episodes(episodes, config).to(device)
        logits = model(batch.images, batch.labels)
        return int((logits.argmax(-1) == batch.classes).sum())

    share = sum(compute_batches(count_right, range(0, count, BATCH_ROWS))) / count
    return {
        "accuracy": 100 * share,
        "standard-error": 100 * (share * (1 - share) / count) ** 0.5,
    }


def setup(config: FewShot, folder: RunDirectory, processes: int) -> Setup:
    """Read the images and build model and objective.

    Raises:
        InputError: Images or classes are too few, or an image can't be read.
    """
    data = config.data
    classes = config.data.load()
    try:
        train, valid, _ = map(config.read_pool, classes.values())
    except InputError as error:
        raise BadRecord(str(error)) from error
    checksums = [
        hashlib.sha256(images.tobytes()).hexdigest() + "\n"
        for images in (*train, *valid)
    ]
    return setup_task(
        config.build(),
        FewShotObjective(train, valid, config),
        Splits(*(list(labels) for labels in classes.values())),
        digest(checksums),
        summarize(config, classes),
        details=[f"{data.valid_episodes:,} validation {data.form}"],
        tests=[image for images in classes["test"].values() for image in images],
        simplest=f"{100 / data.ways:.3g} % of the episodes are right by chance",
    )


def summarize(config: FewShot, classes: Mapping[str, Classes]) -> DataSummary:
    """Summarize the classes, and what the model reads of their images."""
    data = config.data
    train = list(classes["train"].values())
    images, warnings = describe_images(
        [image.image for images in train for image in images],
        config.model.side,
        config.model.channels,
        "model.side",
    )
    support = {
        members[0].label: [
            encode_for_request(image.image) for image in members[: data.shots]
        ]
        for members in train[: data.ways]
    }
    return DataSummary(
        unit="classes",
        rows=describe_rows(data, Splits(*map(list, classes.values()))),
        lengths={"images a class": Lengths.of([len(members) for members in train])},
        images=images,
        example={"image": train[0][0].place, "class": train[0][0].label},
        request={
            "examples": json.dumps(support, ensure_ascii=False),
            "image": encode_for_request(train[0][-1].image),
        },
        warnings=warnings,
    )


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
        names = list(self.labels)
        if len(set(names)) < len(names):
            for index, label in enumerate(self.labels):
                names[index] = f"{label} {self.labels[: index + 1].count(label)}"
        labels = (*names, QUERY)
        images = np.concatenate([self.support, self.query[None]])
        layers = layer_names(len(self.maps))
        maps = self.maps[:, None]
        return (
            Lookups(
                maps[:, :, -1:],
                labels,
                (QUERY,),
                "the query image",
                layers,
                images=images,
            ),
            Lookups(maps, labels, labels, "every image", layers, images=images),
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
        self.config = config
        self.model = model

    @classmethod
    def open(cls, run: RunDirectory, config: FewShot) -> "FewShotRun":
        """Open the run in a folder, its model with initial weights."""
        return cls(config, config.build())

    def parse(self, line: str, place: str = "text 1") -> FewShotExample:
        record, fault = parse_object(line, FORM)
        match record:
            case {"examples": dict(support), "image": str(query)} if all(
                isinstance(paths, list) and all(isinstance(path, str) for path in paths)
                for paths in support.values()
            ):
                return FewShotExample(support, query)
        raise InputError(f"{place}: {fault}")

    def example(self, values: Mapping[str, Any]) -> FewShotExample:
        channels = self.config.model.channels
        support = {
            label: [read_image(content, channels) for content in images]
            for label, images in values["examples"].items()
        }
        return FewShotExample(support, read_image(values["image"], channels))

    def record(self, example: FewShotExample) -> dict[str, Any]:
        return {"image": str(example.query)}

    def read(
        self, files: Sequence[Path | Records], options: EvaluationOptions
    ) -> list[LabelledImage]:
        data = self.config.data
        data = replace(data, skip_bad=options.skip_bad or data.skip_bad)
        return [image for file in files for image in data.read(str(file))]

    def convention(self) -> str:
        data = self.config.data
        return f"accuracy is over {data.test_episodes:,} {data.form}"

    def _load_validation_set(self, data: Any) -> list[LabelledImage]:
        if data.train is None:
            return []
        return [image for images in data.load()["valid"].values() for image in images]

    def compute_metrics(
        self, examples: Sequence[LabelledImage], options: EvaluationOptions
    ) -> dict[str, float]:
        """Return the accuracy in `test_episodes` of the images' classes.

        Raises:
            InputError: Classes or their images are too few.
        """
        config = self.config
        classes = group_by_class(examples)
        config.data.check_sizes(classes, "the images for evaluation")
        pool = config.read_pool(classes)
        count = config.data.test_episodes
        return measure_episodes(self.model, pool, config, count)

    def _predict(
        self, examples: Sequence[FewShotExample], options: PredictOptions
    ) -> list[ClassPrediction]:
        return [self._classify(example)[0] for example in examples]

    @torch.no_grad()
    def _attribute(
        self, example: FewShotExample, options: AttributionOptions
    ) -> Attribution:
        prediction, weights = self._classify(example)
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

    def _classify(
        self, example: FewShotExample
    ) -> tuple[ClassPrediction, EpisodeWeights]:
        """Return the class of the query image, with the attention to the others."""
        ways = self.config.data.ways
        shots = self.config.data.shots
        counts = [len(images) for images in example.support.values()]
        if counts != [shots] * ways:
            raise InputError(
                f"got {counts} examples of {len(counts)} classes; the model was trained "
                f"for {shots} of each of {ways} classes"
            )
        names = list(example.support)
        labels = []
        pixels = []
        for index, name in enumerate(names):
            for image in example.support[name]:
                labels.append(index)
                labelled = LabelledImage(image, name, f"example {len(labels)}")
                pixels.append(self.config.read_pixels(labelled))
        query = LabelledImage(example.query, "", "the query image")
        pixels.append(self.config.read_pixels(query))
        images = np.stack(pixels)
        inputs = self.config.images.tensor(images)[None].to(self.device)
        targets = torch.tensor([labels], device=self.device)
        with record(self.model, only=self.model.self_attention) as maps:
            logits = self.model(inputs, targets)
        layers = maps.stack_layers()
        weights = layers[0, :, 0].double().cpu().numpy()
        probabilities = logits[0, 0].softmax(-1).tolist()
        prediction = ClassPrediction.of(names, probabilities)
        classes = tuple(names[label] for label in labels)
        return prediction, EpisodeWeights(images[-1], images[:-1], classes, weights)
