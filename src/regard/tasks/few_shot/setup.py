"""Set up training: images, model and objective from a run file."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence

from regard.data.bad_records import BadRecord
from regard.data.images import LabelledImage
from regard.data.splits import Splits
from regard.data.usable import Skipping
from regard.errors import InputError
from regard.models.few_shot_snail import FewShotSnail
from regard.storage.run_folder import RunDirectory
from regard.tasks.few_shot.config import FewShot
from regard.tasks.few_shot.data import ImageClasses, variants
from regard.tasks.few_shot.training import FewShotObjective, Pool, pool
from regard.tasks.setup import Setup, digest
from regard.tasks.summary import DataSummary, Lengths, images_seen, rows, sent
from regard.training.state import count_parameters


def setup(config: FewShot, folder: RunDirectory, processes: int) -> Setup:
    """Read the images and build model and objective.

    Raises:
        InputError: images or classes are too few, or an image cannot be read.
    """
    classes = config.data.load()
    train, valid, _ = (
        _pool(each, config) for each in (classes.train, classes.valid, classes.test)
    )
    model = FewShotSnail(config.data.ways, config.data.shots, config.model)
    tests = [each for some in classes.test.values() for each in some]
    kinds = len(
        variants(rotations=config.data.rotations, mirrored=config.data.mirrored)
    )
    turns = f", each in {kinds} variants, turned or mirrored" if kinds > 1 else ""
    return Setup(
        model,
        FewShotObjective(train, valid, config),
        digest(contents((train, valid))),
        f"{len(train):,} classes to train on{turns}, {len(valid):,} to validate, {len(classes.test):,} to test; "
        f"{config.data.valid_episodes:,} validation {config.data.form}; {count_parameters(model):,} parameters",
        tests=tests,
        data=summary(config, classes),
        simplest=f"{100 / config.data.ways:.3g} % of the episodes are right by chance",
    )


def _pool(images: Mapping[str, Sequence[LabelledImage]], config: FewShot) -> Pool:
    """The images of classes. Raises BadRecord for one that cannot be read, where such images may be skipped."""
    try:
        return pool(images, config)
    except InputError as error:
        raise (
            BadRecord(str(error)) if isinstance(config.data, Skipping) else error
        ) from error


def summary(config: FewShot, classes: ImageClasses) -> DataSummary:
    """The classes before training, and what the model reads of their images."""
    sets = Splits(
        list(classes.train.values()),
        list(classes.valid.values()),
        list(classes.test.values()),
    )
    training = [each for some in sets.train for each in some]
    side = config.model.side
    images, warnings = images_seen(
        [each.image for each in training], side, config.model.channels, "model.side"
    )
    return DataSummary(
        unit="classes",
        rows=rows(config.data, sets),
        lengths={"images a class": Lengths.of([len(some) for some in sets.train])},
        images=images,
        example={"image": training[0].place, "class": training[0].label},
        request=_episode(sets.train[: config.data.ways], config.data.shots),
        warnings=warnings,
    )


def _episode(classes: Sequence[Sequence[LabelledImage]], shots: int) -> dict[str, str]:
    """The request of an episode: `shots` images of each class, and the last image of the first class."""
    support = {
        some[0].label: [sent(each.image) for each in some[:shots]] for some in classes
    }
    return {
        "examples": json.dumps(support, ensure_ascii=False),
        "image": sent(classes[0][-1].image),
    }


def contents(pools: Iterable[Pool]) -> Iterable[str]:
    """A line for each class: the digest of its images."""
    return (
        hashlib.sha256(each.tobytes()).hexdigest() + "\n"
        for images in pools
        for each in images
    )
