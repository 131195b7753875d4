"""The `data:` section of a run file for few-shot classification: images by class, and episodes of them."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from random import Random
from typing import Annotated, ClassVar, Literal

import numpy as np
from jaxtyping import UInt8
from pydantic import Field

from regard.config.recognition import Kind
from regard.data.arrays import arrays
from regard.data.images import Depth, ImageFolders, LabelledImage
from regard.data.splits import check_share, spread
from regard.errors import InputError

Count = Annotated[int, Field(ge=1, le=1_000_000)]
QUARTERS = 4
"""Rotations in quarter turns; each makes another class."""


@dataclass(frozen=True)
class ImageClasses:
    """Images by their class, for training, validation and test. No class is in two of them."""

    train: dict[str, list[LabelledImage]]
    valid: dict[str, list[LabelledImage]]
    test: dict[str, list[LabelledImage]]


@dataclass(frozen=True, kw_only=True)
class EpisodeSets(ABC):
    """Episodes of `ways` classes with `shots` support images each and one query image; in training there are
    `questions` query images, each classified by itself. `episodes` are an epoch, `valid_episodes` and `test_episodes`
    are sampled once. In training an image turned by a quarter, a half and three quarters is of another class each, with
    `rotations`, and a mirrored one too, with `mirrored`. Without classes for validation a share of those for training,
    `held_out`, is for it.

    ways: The number of classes of an episode.
    shots: The number of support images of each class.
    questions: The number of query images of an episode in training.
    episodes: The number of episodes of an epoch.
    valid_episodes: The number of episodes of the validation set.
    test_episodes: The number of episodes of the test set.
    rotations: Whether a turned image is of another class in training.
    mirrored: Whether a mirrored image is of another class in training.
    held_out: The share of the classes that is held out where there is no `valid`.
    """

    kind: str = ""
    train: str | None = None
    ways: Annotated[int, Field(ge=2, le=1_000)] = 5
    shots: Annotated[int, Field(ge=1, le=1_000)] = 1
    questions: Annotated[int, Field(ge=1, le=1_000)] = 1
    episodes: Count = 20_000
    valid_episodes: Count = 500
    test_episodes: Count = 1_000
    rotations: bool = True
    mirrored: bool = False
    held_out: float = 0.1
    seed: int = 1

    def __post_init__(self) -> None:
        check_share(self.held_out, "episodes")

    @abstractmethod
    def load(self) -> ImageClasses:
        """Read all sets. Raises InputError with the file for an invalid record."""

    @abstractmethod
    def read(self, path: str) -> list[LabelledImage]:
        """The images of another set. Raises InputError as `load` does."""

    def skipping(self, skip_bad: bool) -> "EpisodeSets":
        """The section that with `skip_bad` skips bad files; of another one that has none, itself."""
        return self

    @property
    def form(self) -> str:
        """What episodes are, and how many are right by chance."""
        shots = f"{self.shots} image{'s' * (self.shots > 1)} of each (shots)"
        return f"episodes of {self.ways} classes (ways) with {shots}; {100 / self.ways:.3g} % are right by chance"

    @property
    def queries(self) -> int:
        """The most query images of one class in an episode of training."""
        return -(-self.questions // self.ways)

    def checked(
        self, images: Sequence[LabelledImage], what: str, queries: int = 1
    ) -> dict[str, list[LabelledImage]]:
        """The images by class. Raises InputError for too few classes or too few images of one for an episode with so
        many query images of a class; no images at all are right."""
        found: dict[str, list[LabelledImage]] = {}
        for each in images:
            found.setdefault(each.label, []).append(each)
        if 0 < len(found) < self.ways:
            raise InputError(
                f"{what}: {len(found)} classes; an episode of {self.ways} ways needs as many; "
                "lower data.ways, hold out more with data.held_out, or add classes"
            )
        for label, some in found.items():
            if len(some) < self.shots + queries:
                raise InputError(
                    f"{some[0].place}: class {label!r} has {len(some)} images; an episode of {self.shots} shots needs "
                    f"{self.shots + queries}, {queries} as queries; add images or lower data.shots"
                    + (" or data.questions" if queries > 1 else "")
                )
        return found

    def _split(
        self, images: Sequence[LabelledImage]
    ) -> tuple[list[LabelledImage], list[LabelledImage]]:
        """Training images, and those of the classes that are held out, equally far from each other: at least as many as
        an episode needs. Raises InputError where too few are left to train on."""
        labels = list(dict.fromkeys(each.label for each in images))
        if len(labels) < 2 * self.ways:
            raise InputError(
                f"{self.train}: {len(labels)} classes, but an episode needs {self.ways} (data.ways) to train on and as "
                "many others to validate; lower data.ways, add classes, or name data.valid"
            )
        share = max(self.held_out, self.ways / len(labels))
        kept, held = (
            set(some)
            for some in spread(labels, share, f"{self.train}: {len(labels)} classes")
        )
        return [each for each in images if each.label in kept], [
            each for each in images if each.label in held
        ]

    def _path(self) -> str:
        if self.train is None:
            raise InputError(
                "data.train is not given; expected images, as --set data.train=PATH"
            )
        return self.train


@dataclass(frozen=True, kw_only=True)
class SeparateSets(EpisodeSets):
    """Each set has a path of its own. No name of a class is in two of them."""

    describing: ClassVar[tuple[str, ...]] = ("held_out",)
    """The keys that describe one set: Omniglot has nearly a thousand classes, of which a few are enough to validate."""

    valid: str | None = None
    test: str | None = None

    def load(self) -> ImageClasses:
        train = self.read(self._path())
        train, valid = (
            self._split(train) if self.valid is None else (train, self.read(self.valid))
        )
        test = [] if self.test is None else self.read(self.test)
        places = (
            str(self.train),
            self.valid or f"{self.train}, held out",
            str(self.test),
        )
        sets = (train, valid, test), places, (self.queries, 1, 1)
        found = [self.checked(*each) for each in zip(*sets, strict=True)]
        for (one, place), (other, elsewhere) in combinations(
            zip(found, places, strict=True), 2
        ):
            if shared := sorted(one.keys() & other.keys()):
                raise InputError(
                    f"{place}: {len(shared)} of its classes are in {elsewhere} too, such as {shared[0]!r}; give each "
                    "set classes of its own"
                )
        return ImageClasses(*found)


@dataclass(frozen=True, kw_only=True)
class FolderEpisodes(SeparateSets):
    """Each set is a folder that has a folder of image files for each class. No name of a class is in two of them.
    `skip_bad` skips files that are no images or broken ones, and counts them. With `depth` 2 the classes are the
    folders in those folders."""

    kind: Literal["class-folders"] = "class-folders"
    skip_bad: bool = False
    depth: Depth = None

    recognised: ClassVar[tuple[Kind, ...]] = ("folders",)

    def read(self, path: str) -> list[LabelledImage]:
        return ImageFolders(skip_bad=self.skip_bad, depth=self.depth).read(path)

    def skipping(self, skip_bad: bool) -> "FolderEpisodes":
        return replace(self, skip_bad=skip_bad or self.skip_bad)


@dataclass(frozen=True, kw_only=True)
class OmniglotEpisodes(EpisodeSets):
    """An .npz file with `images` (uint8, 1 is ink), the number of each one's `alphabet` and `character`, and
    `alphabet_names`. A class is a character. The alphabets called `test` are for the test set. Ink is read as
    black on white, which it is in Omniglot's own files."""

    kind: Literal["omniglot"] = "omniglot"
    test: tuple[str, ...] = ()

    recognised: ClassVar[tuple[Kind, ...]] = ("npz",)

    def load(self) -> ImageClasses:
        images = self.read(self._path())
        known = list(dict.fromkeys(alphabet(each) for each in images))
        for name in self.test:
            if name not in known:
                raise InputError(
                    f"{self.train}: has no alphabet {name!r}; expected of {', '.join(known)}"
                )
        train, valid = self._split(
            [each for each in images if alphabet(each) not in self.test]
        )
        test = [each for each in images if alphabet(each) in self.test]
        sets = (
            (train, "for training", self.queries),
            (valid, "held out", 1),
            (test, "of data.test", 1),
        )
        return ImageClasses(
            *(
                self.checked(each, f"{self.train}, {name}", queries)
                for each, name, queries in sets
            )
        )

    def read(self, path: str) -> list[LabelledImage]:
        """Read the images. Raises InputError for a file that is missing, damaged or of another format."""
        images, alphabets, characters, names = arrays(
            path, ("images", "alphabet", "character", "alphabet_names")
        )
        if images.dtype != np.uint8 or images.ndim != 3:
            raise InputError(
                f"{path}: images are {images.dtype} {images.shape}; expected uint8 (image, height, width)"
            )
        for name, each in (("alphabet", alphabets), ("character", characters)):
            if (
                not np.issubdtype(each.dtype, np.integer)
                or each.shape != images.shape[:1]
            ):
                found = f"{each.dtype} {each.shape}"
                raise InputError(
                    f"{path}: {name} is {found}; expected a whole number for each of {len(images)} images"
                )
        if names.ndim != 1:
            raise InputError(
                f"{path}: alphabet_names are {names.dtype} {names.shape}; expected a list of names"
            )
        if (wrong := alphabets[(alphabets < 0) | (alphabets >= len(names))]).size:
            raise InputError(
                f"{path}: alphabet is {wrong[0]} of an image; expected 0 to {len(names) - 1}, the names"
            )
        return [
            LabelledImage(
                (image == 0) * np.uint8(255),
                f"{names[number]}/{character}",
                f"{path}:{place}",
            )
            for place, (image, number, character) in enumerate(
                zip(images, alphabets, characters, strict=True), 1
            )
        ]


def alphabet(image: LabelledImage) -> str:
    """The class of a character."""
    return image.label.split("/")[0]


@dataclass(frozen=True)
class Place:
    """An image of an episode: the index of its source class, its index in that class, its rotation in quarter turns,
    and whether it is mirrored first."""

    source: int
    image: int
    quarters: int
    mirrored: bool = False


@dataclass(frozen=True)
class Episode:
    """An episode: support images with their labels, and query images with theirs."""

    support: tuple[Place, ...]
    labels: tuple[int, ...]
    queries: tuple[Place, ...]
    targets: tuple[int, ...]


def variants(*, rotations: bool, mirrored: bool) -> list[tuple[bool, int]]:
    """For each class derived from one: whether its images are mirrored, and the quarter turns of their rotation."""
    return list(
        product(
            (False, True) if mirrored else (False,), range(QUARTERS if rotations else 1)
        )
    )


def draw(
    sizes: Sequence[int],
    ways: int,
    shots: int,
    seed: str,
    *,
    questions: int = 1,
    rotations: bool = False,
    mirrored: bool = False,
) -> Episode:
    """Sample an episode from classes of these sizes, as a function of the seed only: classes, labels and order are
    random. The query images cover as many classes as possible."""
    random = Random(seed)  # text is hashed with SHA-512, the same in every process
    ways_to_see = variants(rotations=rotations, mirrored=mirrored)
    kinds = random.sample(range(len(sizes) * len(ways_to_see)), ways)
    first, support, queries = random.randrange(ways), [], []
    for label, (source, variant) in enumerate(
        (each % len(sizes), each // len(sizes)) for each in kinds
    ):
        mirror, quarters = ways_to_see[variant]
        images = random.sample(range(sizes[source]), shots - (-questions // ways))
        places = [Place(source, image, quarters, mirror) for image in images]
        support += [(place, label) for place in places[:shots]]
        times = len(range((label - first) % ways, questions, ways))
        queries += [(place, label) for place in places[shots : shots + times]]
    random.shuffle(support)
    places, labels = zip(*support, strict=True)
    return Episode(places, labels, *zip(*queries, strict=True))


def seen(
    pixels: UInt8[np.ndarray, "height width channel"], place: Place
) -> UInt8[np.ndarray, "turned_height turned_width channel"]:
    """An image, mirrored and rotated as its place in the episode requires."""
    return np.rot90(pixels[:, ::-1] if place.mirrored else pixels, place.quarters)
