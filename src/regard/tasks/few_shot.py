"""Few-shot classification of images by SNAIL (Mishra 2018, 1707.03141).

`load(folder).predict([FewShotExample(support, query)])` classifies a query image by a few
images of each class. Training samples episodes of a few classes from sets whose classes are
distinct.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import UInt8
from pydantic import Field, TypeAdapter, ValidationError
from torch import Tensor, nn
from torch.nn import functional

from regard.attention.record import record
from regard.config.file_kinds import Kind
from regard.data.arrays import arrays
from regard.data.batches import Batch
from regard.data.images import Depth, ImageFolders, ImageRows, LabelledImage, find_above
from regard.data.records import Records
from regard.data.rows import BadRecord
from regard.data.splits import Share, Splits, choose_groups
from regard.errors import InputError, quote
from regard.images import Augmentation, Image, Pixels, Preparation
from regard.maps.lookups import Lookups
from regard.metrics import Metrics
from regard.models.sizes import Size
from regard.models.snail import FewShotSnail, SnailConfig, prototype_logits
from regard.pictures.panels import episode as plot_episode
from regard.pictures.panels import layer_names
from regard.shapes import Float, Int
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution
from regard.tasks.base import (
    ModelRun,
    Setup,
    TokenBatchObjective,
    digest_bytes,
    setup_task,
)
from regard.tasks.class_prediction import ClassPrediction
from regard.tasks.image_inputs import ImageSettings
from regard.tasks.options import (
    AttributionOptions,
    EvaluationOptions,
    Json,
    PredictOptions,
)
from regard.tasks.run import Task, refuse_smoothing
from regard.tasks.summary import (
    DataSummary,
    Lengths,
    describe_rows,
)
from regard.training.objectives import Carried, Loss
from regard.training.settings import Amount, Training
from regard.work import compute_batches

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Classes = Sequence[Sequence[LabelledImage]]
"""The images of each class."""
Pool = Sequence[UInt8[np.ndarray, "_image height width channel"]]
"""The images of each class, as the model reads them."""
QUERY = "query"
"""The label of the query image."""
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
    test: str | None = None
    ways: Annotated[int, Field(ge=2)] = 5
    """The number of classes of an episode."""
    shots: Size = 1
    """The number of support images of each class."""
    questions: Size = 1
    """The number of query images of an episode in training."""
    episodes: Size = 20_000
    """The number of episodes of an epoch."""
    valid_episodes: Size = 500
    """The number of episodes of the validation set."""
    test_episodes: Size = 1_000
    """The number of episodes of the test set."""
    rotations: bool = True
    """Whether an image rotated by quarter turns is of another class in training."""
    mirrored: bool = False
    """Whether a mirrored image is of another class in training."""
    held_out: Share = 0.1
    """The share of the classes that is held out where there is no `valid`."""
    seed: int = 1
    skip_bad: bool = False
    """Skip files that are no images or broken ones, and count them."""

    describing: ClassVar[tuple[str, ...]] = ("held_out",)
    """Keys of one data set: of Omniglot's thousand classes a few suffice."""

    @abstractmethod
    def read_images(self, path: str) -> Iterable[LabelledImage]:
        """Read the images of a set.

        Raises:
            InputError: The file is missing, damaged or of another format.
        """

    def take_test_set(self, classes: Classes) -> tuple[Classes, Classes]:
        """Return the classes for training and validation, and those of the test set."""
        images = () if self.test is None else self.read_images(self.test)
        return classes, group_by_class(images)

    def load(self) -> Splits[Sequence[LabelledImage]]:
        """Read the classes of the three sets; no class is in two of them.

        Raises:
            InputError: A record is invalid, or a set has too few classes or images.
        """
        if self.train is None:
            raise InputError(
                "data.train is not given; expected images, as --set data.train=PATH"
            )
        train, test = self.take_test_set(group_by_class(self.read_images(self.train)))
        if self.valid is not None:
            valid = group_by_class(self.read_images(self.valid))
        else:
            count = len(train)
            if count < 2 * self.ways:
                raise InputError(
                    f"{self.train}: {count} classes, but an episode needs {self.ways} "
                    "(data.ways) to train on and as many others to validate; lower "
                    "data.ways, add classes, or name data.valid"
                )
            share = max(self.held_out, self.ways / count)
            rows = choose_groups(range(count), share, self.seed)
            valid = [train[row] for row in rows]
            train = [train[row] for row in range(count) if row not in rows]
        splits = Splits(train, valid, test)
        for name, classes in splits.by_name.items():
            if name != "test" or test:
                questions = self.questions if name == "train" else 1
                self.check_sizes(classes, f"{self.train}, {name}", questions)
        labels = Counter(images[0].label for images in (*train, *valid, *test))
        label, count = labels.most_common(1)[0]
        if count > 1:
            raise InputError(
                f"{self.train}: class {label!r} is in two sets; give each set classes of "
                "its own"
            )
        return splits

    def tests(self) -> Sequence[Sequence[LabelledImage]]:
        """Return the classes of the test set."""
        return self.load().test

    @property
    def form(self) -> str:
        """A description of the episodes, and how many are right by chance."""
        return (
            f"episodes of {self.ways} classes (ways) with {self.shots} images of each "
            f"(shots); {100 / self.ways:.3g} % are right by chance"
        )

    def check_sizes(self, classes: Classes, name: str, questions: int = 1) -> None:
        """Raise InputError where an episode needs more classes, or images of a class.

        Args:
            classes: The classes of one set.
            name: What to call the set in an error.
            questions: The number of query images.
        """
        needed = self.shots + -(-questions // self.ways)
        fewest = min(map(len, classes), default=needed)
        if len(classes) < self.ways or fewest < needed:
            raise InputError(
                f"{name}: {len(classes)} classes of {fewest} images or more; an episode "
                f"needs {self.ways} classes (data.ways) of {needed} images (data.shots "
                "and data.questions); lower these, or add classes or images"
            )


def group_by_class(images: Iterable[LabelledImage]) -> Classes:
    """Group images by class, in the order of the first of each."""
    classes: dict[str, list[LabelledImage]] = {}
    for image in images:
        classes.setdefault(image.label, []).append(image)
    return list(classes.values())


@dataclass(frozen=True, kw_only=True)
class FolderEpisodes(EpisodeSets):
    """Folders with a folder of image files for each class."""

    kind: Literal["class-folders"] = "class-folders"
    depth: Depth = None
    """The depth of the class folders. Default: found from the images."""

    recognised: ClassVar[tuple[Kind, ...]] = ("folders",)

    def read_images(self, path: str) -> Iterable[LabelledImage]:
        root = Path(path)
        depth = self.depth
        if depth is None and root.is_dir() and not find_above(root):
            depth = 2
        return ImageFolders(skip_bad=self.skip_bad, depth=depth).read(path)


@dataclass(frozen=True, kw_only=True)
class TableEpisodes(ImageRows, EpisodeSets):
    """Tables of images and their classes, as those of a classifier of images."""

    kind: Literal["class-tables"] = "class-tables"


@dataclass(frozen=True, kw_only=True)
class OmniglotEpisodes(EpisodeSets):
    """An .npz file of characters, each of which is a class.

    It has `images` (uint8, 1 is ink), the number of each one's `alphabet` and
    `character`, and `alphabet_names`. Ink is read as black on white.
    """

    kind: Literal["omniglot"] = "omniglot"
    test: tuple[str, ...] = ()  # pyright: ignore[reportIncompatibleVariableOverride]
    """The alphabets of the test set."""

    describing = ()
    recognised: ClassVar[tuple[Kind, ...]] = ("npz",)

    def take_test_set(self, classes: Classes) -> tuple[Classes, Classes]:
        alphabets = [images[0].label.split("/")[0] for images in classes]
        if unknown := {*self.test} - {*alphabets}:
            raise InputError(
                f"{self.train}: has no alphabet {min(unknown)!r}; expected of "
                f"{', '.join(dict.fromkeys(alphabets))}"
            )
        train, test = [], []
        for alphabet, images in zip(alphabets, classes, strict=True):
            (test if alphabet in self.test else train).append(images)
        return train, test

    def read_images(self, path: str) -> Iterable[LabelledImage]:
        keys = ("images", "alphabet", "character", "alphabet_names")
        images, alphabets, characters, names = arrays(path, keys)
        try:
            rows = list(zip(names[alphabets], characters, images, strict=True))
        except (IndexError, ValueError) as error:
            raise InputError(
                f"{path}: expected images of uint8 (image, height, width), whole numbers "
                "alphabet and character of each, and alphabet_names, a list of which "
                "alphabet is an index"
            ) from error
        return [
            LabelledImage(
                (image == 0) * np.uint8(255),
                f"{alphabet}/{character}",
                f"{path}:{number}",
            )
            for number, (alphabet, character, image) in enumerate(rows, 1)
        ]


@dataclass(frozen=True, kw_only=True)
class FewShot(ImageSettings):
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

    side_key = "model.side"

    def __post_init__(self) -> None:
        self.check_sizes(self.model.side)
        if self.augmentation.flip:
            raise ValueError(
                "augmentation.flip mirrors half of a class; data.mirrored makes it "
                "another class"
            )
        refuse_smoothing(self.training)

    @property
    def size(self) -> int:
        """The side of the images, in pixels."""
        return self.model.side

    def read_pool(self, classes: Sequence[Sequence[LabelledImage]]) -> Pool:
        """Read the images of each class. Raises InputError for an unreadable one."""
        return [np.stack([*map(self.read_pixels, images)]) for images in classes]


@dataclass(frozen=True, eq=False)
class Episode:
    """Support images with their labels, and query images with theirs."""

    images: Sequence[Pixels]
    """The queries last."""
    labels: Sequence[int]
    targets: Sequence[int]


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
    questions = data.questions if training else 1
    turns = 4 if training and data.rotations else 1
    mirrors = 2 if training and data.mirrored else 1
    classes = random.sample(range(len(pool) * mirrors * turns), ways)
    first = random.randrange(ways)
    support = []
    queries = []
    for label, number in enumerate(classes):
        variant, source = divmod(number, len(pool))
        mirror, quarters = divmod(variant, turns)
        images = pool[source][:, :, ::-1] if mirror else pool[source]
        images = np.rot90(images, quarters, (1, 2))
        rows = random.sample(range(len(images)), data.shots + -(-questions // ways))
        count = len(range((label - first) % ways, questions, ways))
        pairs = [(images[row], label) for row in rows[: data.shots + count]]
        support += pairs[: data.shots]
        queries += pairs[data.shots :]
    random.shuffle(support)
    pixels, labels = zip(*support, *queries, strict=True)
    return Episode(pixels, labels[: len(support)], labels[len(support) :])


@dataclass(frozen=True, repr=False)
class EpisodeBatch(Batch):
    """Support images followed by query images, labels and classes of the queries."""

    images: Float[Tensor, "batch image channel height width"]
    labels: Int[Tensor, "batch support"]
    classes: Int[Tensor, "batch query"]


def collate_episodes(episodes: Sequence[Episode], config: FewShot) -> EpisodeBatch:
    """Collate at least one episode."""
    return EpisodeBatch(
        config.images.tensor(np.stack([np.stack(e.images) for e in episodes])),
        torch.tensor([episode.labels for episode in episodes]),
        torch.tensor([episode.targets for episode in episodes]),
    )


class FewShotObjective(TokenBatchObjective[int, EpisodeBatch]):
    """The cross-entropy of the query images' classes, and that of prototypes."""

    metric, higher_is_better, unit = "accuracy", True, "images"

    def __init__(self, train: Pool, valid: Pool, config: FewShot) -> None:
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
        augment = self.config.augmentation
        episodes = []
        for index in indices:
            name = f"{data.seed}/{seed}/{epoch}/{index}"
            episode = sample_episode(self.pool, data, name, training=True)
            numbered = enumerate(episode.images, index * self.size)
            images = [augment(image, seed, epoch, number) for number, image in numbered]
            episodes.append(replace(episode, images=images))
        return collate_episodes(episodes, self.config)

    def loss(
        self,
        model: Any,
        batch: EpisodeBatch,
        update: int,
        carried: Carried | None = None,
    ) -> Loss:
        total = episode_loss(model, batch, self.config.prototypes)
        episodes, images = batch.images.shape[:2]
        return Loss(total, batch.classes.numel(), read=episodes * images)

    def validate(self, model: nn.Module) -> Metrics:
        count = self.config.data.valid_episodes
        return measure_episodes(model, self.valid, self.config, count)


def episode_loss(
    model: FewShotSnail, batch: EpisodeBatch, prototypes: float = 0.0
) -> Float[Tensor, ""]:
    """Return the summed cross-entropy of the network, and of prototypes on its codes."""
    codes = model.codes(batch.images)
    total = cross_entropy(model.classify(codes, batch.labels), batch.classes)
    if prototypes:
        logits = prototype_logits(codes, batch.labels, model.ways)
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
) -> Metrics:
    """Return the accuracy in `count` episodes and its standard error, in per cent."""
    device = next(model.parameters()).device

    def count_right(first: int) -> int:
        numbers = range(first, min(first + BATCH_ROWS, count))
        seeds = [f"{config.data.seed}/measured/{number}" for number in numbers]
        episodes = [sample_episode(pool, config.data, seed) for seed in seeds]
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
    splits = data.load()
    try:
        train, valid = map(config.read_pool, (splits.train, splits.valid))
        config.read_pool(splits.test)
    except InputError as error:
        raise BadRecord(str(error)) from error
    images, warnings = config.describe([*chain.from_iterable(splits.train)])
    first = splits.train[0][0]
    summary = DataSummary(
        unit="classes",
        rows=describe_rows(data, splits),
        lengths={"class, in images": Lengths.of(list(map(len, splits.train)))},
        images=images,
        example={"image": first.place, "class": first.label},
        warnings=warnings,
    )
    return setup_task(
        FewShotRun.build(config),
        FewShotObjective(train, valid, config),
        splits,
        digest_bytes(images.tobytes() for images in (*train, *valid)),
        summary,
        details=[f"{data.valid_episodes:,} validation {data.form}"],
    )


@dataclass(frozen=True)
class EpisodeLine:
    """An example as a line of JSON: paths of images."""

    examples: dict[str, list[str]]
    image: str


@dataclass(frozen=True, eq=False)
class FewShotExample:
    """Support images by the name of their class, and a query image."""

    support: Mapping[str, Sequence[Image]]
    query: Image


@dataclass(frozen=True, eq=False)
class EpisodeWeights:
    """The weights of each image of an episode on itself and the images before it."""

    images: UInt8[np.ndarray, "image height width channel"]
    """The query last."""
    labels: tuple[str, ...]
    """The classes of the support images."""
    maps: np.ndarray
    """`(layer, image, image)`; a row sums to 1."""

    @property
    def weights(self) -> np.ndarray:
        """The weights of the query on every image, in the last layer."""
        return self.maps[-1, -1]

    def lookups(self) -> Lookups:
        """Return the lookups of every image in all layers, those of the query last.

        Images are named by their class.
        """
        labels = (*self.labels, QUERY)
        layers = layer_names(len(self.maps))
        return Lookups(
            self.maps[:, None], labels, labels, "images", layers, images=self.images
        )

    def figure(self, title: str) -> "Figure":
        """Plot the images, framed by the weights of the query in each layer."""
        images = self.images
        weights = self.maps[:, -1]
        return plot_episode(images[-1], images[:-1], self.labels, weights, title=title)


class FewShotRun(ModelRun[FewShotExample, ClassPrediction]):
    """A trained model with its run file."""

    does = "Chooses the class of an image by a few examples of each class."
    config: FewShot
    model: FewShotSnail
    supports = {
        **ModelRun.supports,
        "evaluate": ("files", "skip_bad"),
    }
    inputs = {"examples": dict[str, list[bytes]], "image": bytes}
    unit = "classes"
    data_hint = "give a set of images"

    @staticmethod
    def build(config: FewShot) -> FewShotSnail:
        return FewShotSnail(config.data.ways, config.data.shots, config.model)

    def parse(self, line: str, place: str = "text 1") -> FewShotExample:
        try:
            values = TypeAdapter(EpisodeLine).validate_json(line)
        except ValidationError:
            raise InputError(f"{place}: {quote(line)}; expected {FORM}") from None
        return FewShotExample(values.examples, values.image)

    def example(self, values: Json) -> FewShotExample:
        return FewShotExample(values["examples"], values["image"])

    def record(self, example: FewShotExample) -> Json:
        return {"image": str(example.query)}

    def read(
        self, files: Sequence[Path | Records], options: EvaluationOptions
    ) -> Classes:
        data = self.config.data
        data = replace(data, skip_bad=options.skip_bad or data.skip_bad)
        return group_by_class(
            image for file in files for image in data.read_images(str(file))
        )

    def convention(self) -> str:
        data = self.config.data
        return f"accuracy is over {data.test_episodes:,} {data.form}"

    def compute_metrics(self, examples: Classes, options: EvaluationOptions) -> Metrics:
        """Return the accuracy in `test_episodes` of the classes.

        Raises:
            InputError: Classes or their images are too few.
        """
        config = self.config
        config.data.check_sizes(examples, "the images for evaluation")
        count = config.data.test_episodes
        return measure_episodes(self.model, config.read_pool(examples), config, count)

    def _predict(
        self, examples: Sequence[FewShotExample], options: PredictOptions
    ) -> list[ClassPrediction]:
        return [self._classify(example)[0] for example in examples]

    @torch.no_grad()
    def _attribute(
        self, example: FewShotExample, options: AttributionOptions
    ) -> Attribution:
        prediction, weights = self._classify(example)
        return Attribution(
            prediction,
            str(prediction),
            (weights.lookups(),),
            weights,
            options,
            draw=weights.figure,
        )

    def _classify(
        self, example: FewShotExample
    ) -> tuple[ClassPrediction, EpisodeWeights]:
        """Return the class of the query image, with the attention to the others."""
        data = self.config.data
        counts = [len(images) for images in example.support.values()]
        if counts != [data.shots] * data.ways:
            raise InputError(
                f"got {len(counts)} classes with {counts} examples; the model was trained "
                f"for {data.ways} classes with {data.shots} each, so give as many"
            )
        names = list(example.support)
        labels = np.repeat(np.arange(data.ways), data.shots)
        images = [*chain.from_iterable(example.support.values()), example.query]
        pixels = np.stack(
            [
                self.config.read_pixels(LabelledImage(image, "", f"image {number}"))
                for number, image in enumerate(images, 1)
            ]
        )
        inputs = self.config.images.tensor(pixels)[None].to(self.device)
        targets = torch.from_numpy(labels)[None].to(self.device)
        with record(self.model, only=self.model.self_attention) as maps:
            logits = self.model(inputs, targets)
        weights = maps.stack_layers()[0, :, 0].double().cpu().numpy()
        prediction = ClassPrediction.of(names, logits[0, 0].softmax(-1).tolist())
        classes = tuple(names[label] for label in labels)
        return prediction, EpisodeWeights(pixels, classes, weights)


TASK = Task(
    FewShot,
    setup,
    FewShotRun,
    command="""regard predict {} '{"examples": {"a": ["a1.png"], ...}, "image": "x.png"}'""",
)
