"""The run file of few-shot classification, and episodes of images."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from random import Random
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from regard.config.file_kinds import Kind
from regard.data.arrays import arrays
from regard.data.images import Depth, ImageFolders, ImageRows, LabelledImage
from regard.data.splits import check_share, choose_groups
from regard.errors import InputError
from regard.images import Augmentation, Pixels, Preparation
from regard.models.snail import SnailConfig
from regard.training.settings import Amount, Training

Count = Annotated[int, Field(ge=1, le=1_000_000)]
SmallCount = Annotated[int, Field(ge=1, le=1_000)]
Classes = dict[str, list[LabelledImage]]
"""Images by their class."""
QUARTERS = 4
"""Rotations in quarter turns; each makes another class."""


@dataclass(frozen=True)
class ImageClasses:
    """Images by their class, for training, validation and test; no class is in two."""

    train: Classes
    valid: Classes
    test: Classes


@dataclass(frozen=True, kw_only=True)
class EpisodeSets(ABC):
    """Episodes of `ways` classes with `shots` support images each and query images."""

    kind: str = ""
    train: str | None = None
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

    def __post_init__(self) -> None:
        check_share(self.held_out, "episodes")

    @abstractmethod
    def load(self) -> ImageClasses:
        """Read all sets.

        Raises:
            InputError: A record is invalid, or a set has too few classes or images.
        """

    @abstractmethod
    def read(self, path: str) -> list[LabelledImage]:
        """Read the images of another set.

        Raises:
            InputError: The file is missing, damaged or of another format.
        """

    def skipping(self, skip_bad: bool) -> "EpisodeSets":
        """Return the section that skips bad files, where it can."""
        return self

    def tests(self) -> list[LabelledImage]:
        """Return the images of the test set."""
        return [image for images in self.load().test.values() for image in images]

    @property
    def form(self) -> str:
        """A description of the episodes, and how many are right by chance."""
        plural = "s" if self.shots > 1 else ""
        return (
            f"episodes of {self.ways} classes (ways) with {self.shots} image{plural} of "
            f"each (shots); {100 / self.ways:.3g} % are right by chance"
        )

    @property
    def queries(self) -> int:
        """The most query images of one class in an episode of training."""
        return -(-self.questions // self.ways)

    def group_by_class(
        self, images: Sequence[LabelledImage], name: str, queries: int = 1
    ) -> Classes:
        """Group images by class; no images at all are allowed.

        Args:
            images: Images of one set.
            name: What to call the set in an error.
            queries: Query images of one class in an episode.

        Raises:
            InputError: An episode needs more classes, or more images of a class.
        """
        classes: Classes = {}
        for image in images:
            classes.setdefault(image.label, []).append(image)
        if 0 < len(classes) < self.ways:
            raise InputError(
                f"{name}: {len(classes)} classes; an episode of {self.ways} ways needs as "
                "many; lower data.ways, hold out more with data.held_out, or add classes"
            )
        needed = self.shots + queries
        for label, members in classes.items():
            if len(members) < needed:
                keys = "data.shots or data.questions" if queries > 1 else "data.shots"
                raise InputError(
                    f"{members[0].place}: class {label!r} has {len(members)} images; an "
                    f"episode of {self.shots} shots needs {needed}, {queries} as "
                    f"queries; add images or lower {keys}"
                )
        return classes

    def _split(
        self, images: Sequence[LabelledImage]
    ) -> tuple[list[LabelledImage], list[LabelledImage]]:
        """Hold out classes at random, at least as many as an episode needs."""
        labels = list(dict.fromkeys(image.label for image in images))
        name = f"{self.train}: {len(labels)} classes"
        if len(labels) < 2 * self.ways:
            raise InputError(
                f"{name}, but an episode needs {self.ways} (data.ways) to train on and as "
                "many others to validate; lower data.ways, add classes, or name "
                "data.valid"
            )
        share = max(self.held_out, self.ways / len(labels))
        chosen = choose_groups(labels, share, self.seed)
        held_out = {labels[index] for index in chosen}
        train = [image for image in images if image.label not in held_out]
        return train, [image for image in images if image.label in held_out]

    def _training_path(self) -> str:
        if self.train is None:
            raise InputError(
                "data.train is not given; expected images, as --set data.train=PATH"
            )
        return self.train


@dataclass(frozen=True, kw_only=True)
class SeparateSets(EpisodeSets):
    """Sets with a path of their own each. No name of a class is in two of them."""

    describing: ClassVar[tuple[str, ...]] = ("held_out",)
    """Keys of one data set: of Omniglot's thousand classes a few suffice."""

    valid: str | None = None
    test: str | None = None

    def load(self) -> ImageClasses:
        images = self.read(self._training_path())
        if self.valid is None:
            train, valid = self._split(images)
        else:
            train, valid = images, self.read(self.valid)
        test = [] if self.test is None else self.read(self.test)
        held_out = self.valid or f"{self.train}, held out"
        sets = [
            (
                str(self.train),
                self.group_by_class(train, str(self.train), self.queries),
            ),
            (held_out, self.group_by_class(valid, held_out)),
            (str(self.test), self.group_by_class(test, str(self.test))),
        ]
        for (name, classes), (second_name, second) in combinations(sets, 2):
            if shared := sorted(classes.keys() & second.keys()):
                raise InputError(
                    f"{name}: {len(shared)} of its classes are in {second_name} too, such "
                    f"as {shared[0]!r}; give each set classes of its own"
                )
        return ImageClasses(*(classes for _, classes in sets))


@dataclass(frozen=True, kw_only=True)
class FolderEpisodes(SeparateSets):
    """Folders with a folder of image files for each class."""

    kind: Literal["class-folders"] = "class-folders"
    skip_bad: bool = False
    """Skip files that are no images or broken ones, and count them."""
    depth: Depth = None
    """With 2, the classes are the folders in those folders."""

    recognised: ClassVar[tuple[Kind, ...]] = ("folders",)

    def read(self, path: str) -> list[LabelledImage]:
        return list(ImageFolders(skip_bad=self.skip_bad, depth=self.depth).read(path))

    def skipping(self, skip_bad: bool) -> "FolderEpisodes":
        return replace(self, skip_bad=skip_bad or self.skip_bad)


@dataclass(frozen=True, kw_only=True)
class TableEpisodes(ImageRows, SeparateSets):
    """Tables of images and their classes, as those of a classifier of images."""

    kind: Literal["class-tables"] = "class-tables"

    def read(self, path: str) -> list[LabelledImage]:
        """Read the images of a table. Raises InputError for an invalid record."""
        return list(self.read_images(path))

    def skipping(self, skip_bad: bool) -> "TableEpisodes":
        return self.with_columns(None, skip_bad=skip_bad)


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

    def load(self) -> ImageClasses:
        images = self.read(self._training_path())
        alphabets = list(dict.fromkeys(alphabet_of(image) for image in images))
        for name in self.test:
            if name not in alphabets:
                raise InputError(
                    f"{self.train}: has no alphabet {name!r}; expected of "
                    f"{', '.join(alphabets)}"
                )
        test = [image for image in images if alphabet_of(image) in self.test]
        train, valid = self._split(
            [image for image in images if alphabet_of(image) not in self.test]
        )
        return ImageClasses(
            self.group_by_class(train, f"{self.train}, for training", self.queries),
            self.group_by_class(valid, f"{self.train}, held out"),
            self.group_by_class(test, f"{self.train}, of data.test"),
        )

    def read(self, path: str) -> list[LabelledImage]:
        keys = ("images", "alphabet", "character", "alphabet_names")
        images, alphabets, characters, names = arrays(path, keys)
        if images.dtype != np.uint8 or images.ndim != 3:
            raise InputError(
                f"{path}: images are {images.dtype} {images.shape}; expected uint8 (image, "
                "height, width)"
            )
        for key, numbers in (("alphabet", alphabets), ("character", characters)):
            is_integer = np.issubdtype(numbers.dtype, np.integer)
            if not is_integer or numbers.shape != images.shape[:1]:
                raise InputError(
                    f"{path}: {key} is {numbers.dtype} {numbers.shape}; expected a whole "
                    f"number for each of {len(images)} images"
                )
        if names.ndim != 1:
            raise InputError(
                f"{path}: alphabet_names are {names.dtype} {names.shape}; expected a list "
                "of names"
            )
        wrong = alphabets[(alphabets < 0) | (alphabets >= len(names))]
        if wrong.size:
            raise InputError(
                f"{path}: alphabet is {wrong[0]} of an image; expected 0 to "
                f"{len(names) - 1}, the names"
            )
        labelled = []
        for index, image in enumerate(images):
            label = f"{names[alphabets[index]]}/{characters[index]}"
            pixels = (image == 0) * np.uint8(255)
            labelled.append(LabelledImage(pixels, label, f"{path}:{index + 1}"))
        return labelled


def alphabet_of(image: LabelledImage) -> str:
    """Return the alphabet of a character."""
    return image.label.split("/")[0]


@dataclass(frozen=True)
class ImageRef:
    """An image of an episode, by its indices and its transformation."""

    source: int
    """The index of its class."""
    image: int
    """The index in the class."""
    quarters: int
    """Its rotation in quarter turns."""
    mirrored: bool = False
    """Whether it is mirrored first."""


@dataclass(frozen=True)
class Episode:
    """Support images with their labels, and query images with theirs."""

    support: tuple[ImageRef, ...]
    labels: tuple[int, ...]
    queries: tuple[ImageRef, ...]
    targets: tuple[int, ...]


def list_variants(*, rotations: bool, mirrored: bool) -> list[tuple[bool, int]]:
    """List the classes derived from one: mirrored or not, and the quarter turns."""
    mirrors = (False, True) if mirrored else (False,)
    return list(product(mirrors, range(QUARTERS if rotations else 1)))


def sample_episode(
    sizes: Sequence[int],
    ways: int,
    shots: int,
    seed: str,
    *,
    questions: int = 1,
    rotations: bool = False,
    mirrored: bool = False,
) -> Episode:
    """Sample an episode, as a function of the seed only.

    Classes, labels and order are random. The query images cover as many classes as
    possible.

    Args:
        sizes: The number of images of each class.
        ways: Classes of the episode.
        shots: Support images of each class.
        seed: A text, which is hashed with SHA-512.
        questions: Query images.
        rotations: Whether rotated images are of further classes.
        mirrored: Whether mirrored images are of further classes.
    """
    random = Random(seed)
    variants = list_variants(rotations=rotations, mirrored=mirrored)
    classes = random.sample(range(len(sizes) * len(variants)), ways)
    first = random.randrange(ways)
    support, queries = [], []
    for label, number in enumerate(classes):
        variant, source = divmod(number, len(sizes))
        mirror, quarters = variants[variant]
        images = random.sample(range(sizes[source]), shots - (-questions // ways))
        refs = [ImageRef(source, image, quarters, mirror) for image in images]
        support += [(ref, label) for ref in refs[:shots]]
        count = len(range((label - first) % ways, questions, ways))
        queries += [(ref, label) for ref in refs[shots : shots + count]]
    random.shuffle(support)
    refs, labels = zip(*support, strict=True)
    return Episode(refs, labels, *zip(*queries, strict=True))


def transform(pixels: Pixels, ref: ImageRef) -> np.ndarray:
    """Mirror and rotate an image as the episode requires."""
    return np.rot90(pixels[:, ::-1] if ref.mirrored else pixels, ref.quarters)


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
        if self.augmentation.flip:
            raise ValueError(
                "augmentation.flip mirrors half of a class; data.mirrored makes it "
                "another class"
            )
        if self.training.label_smoothing:
            raise ValueError(
                "training.label_smoothing is set; episodes are not smoothed, set it to 0"
            )

    @property
    def count(self) -> int:
        """The number of images of a training episode."""
        return self.data.ways * self.data.shots + self.data.questions
