"""Training of few-shot classifiers: episodes in batches, the loss and the metrics."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor, nn
from torch.nn import functional

from regard.data.batching import Batch
from regard.data.images import LabelledImage
from regard.data.token_batches import batch_size, token_batches
from regard.images import Pixels
from regard.models.few_shot_snail import FewShotSnail
from regard.shapes import Float, Int
from regard.tasks.few_shot.config import FewShot
from regard.tasks.few_shot.data import Episode, draw, seen
from regard.training.objective import Carried, Loss
from regard.work import computed

ROWS = 32
"""Episodes in one batch of evaluation."""
Pool = Sequence[UInt8[np.ndarray, "_image height width channel"]]
"""The images of each class, as the model reads them."""


@dataclass(frozen=True, repr=False)
class EpisodeBatch(Batch):
    """Support images followed by query images, the labels of the former and the classes of the latter."""

    images: Float[Tensor, "batch image channel height width"]
    labels: Int[Tensor, "batch support"]
    classes: Int[Tensor, "batch query"]


def pool(classes: Mapping[str, Sequence[LabelledImage]], config: FewShot) -> Pool:
    """Read the images of each class. Raises InputError for one that cannot be read."""
    return [
        np.stack([pixels_of(each, config) for each in some])
        for some in classes.values()
    ]


def pixels_of(each: LabelledImage, config: FewShot) -> Pixels:
    """The pixels of an image as the model's input. Raises InputError for one that cannot be read."""
    return config.images.pixels(
        each.image, config.model.side, config.model.channels, each.place
    )


def pixels_in(episode: Episode, images: Pool) -> list[Pixels]:
    """The images of an episode, the queries last."""
    return [
        seen(images[place.source][place.image], place)
        for place in (*episode.support, *episode.queries)
    ]


def collate_episodes(
    episodes: Sequence[tuple[Episode, Sequence[Pixels]]], config: FewShot
) -> EpisodeBatch:
    """Episodes with their images. Raises ValueError for no episodes at all."""
    if not episodes:
        raise ValueError("collate_episodes() got no episodes; expected at least one")
    images = config.images.tensor(
        np.stack([np.stack(pixels) for _, pixels in episodes])
    )
    labels, targets = (
        [getattr(each, name) for each, _ in episodes] for name in ("labels", "targets")
    )
    return EpisodeBatch(images, torch.tensor(labels), torch.tensor(targets))


class FewShotObjective:
    """The cross-entropy of the query images' classes, and the weighted cross-entropy of prototypes."""

    metric, higher_is_better, unit = "accuracy", True, "images"

    def __init__(self, train: Pool, valid: Pool, config: FewShot):
        """Raises InputError for no episodes."""
        self.train, self.valid, self.config, self.settings = (
            train,
            valid,
            config,
            config.training,
        )
        self.lengths = [(config.count, config.count)] * config.data.episodes
        self.tokens = batch_size(
            self.lengths, self.settings.batch_tokens, "training episodes"
        )

    def batches(self, epoch: int) -> Sequence[list[int]]:
        return token_batches(self.lengths, self.tokens, self.settings.seed, epoch)

    def batch(self, epoch: int, indices: list[int]) -> EpisodeBatch:
        return collate_episodes(
            [self._episode(epoch, index) for index in indices], self.config
        )

    def loss(
        self,
        model: nn.Module,
        batch: EpisodeBatch,
        update: int,
        carried: Carried | None = None,
    ) -> Loss:
        assert isinstance(model, FewShotSnail)
        total = episode_loss(model, batch, self.config.prototypes)
        return Loss(
            total,
            batch.classes.numel(),
            read=batch.images.shape[0] * batch.images.shape[1],
        )

    def validate(self, model: nn.Module) -> dict[str, float]:
        assert isinstance(model, FewShotSnail)
        return figures(model, self.valid, self.config, self.config.data.valid_episodes)

    def _episode(self, epoch: int, index: int) -> tuple[Episode, list[Pixels]]:
        """An episode of an epoch, with augmented images."""
        data, seed, sizes = (
            self.config.data,
            self.settings.seed,
            [len(each) for each in self.train],
        )
        settings = {
            "questions": data.questions,
            "rotations": data.rotations,
            "mirrored": data.mirrored,
        }
        episode = draw(
            sizes,
            data.ways,
            data.shots,
            f"{data.seed}/{seed}/{epoch}/{index}",
            **settings,
        )
        first = index * self.config.count
        pixels = enumerate(pixels_in(episode, self.train), first)
        return episode, [
            self.config.augmentation(each, seed, epoch, number)
            for number, each in pixels
        ]


def episode_loss(
    model: FewShotSnail, batch: EpisodeBatch, prototypes: float = 0.0
) -> Float[Tensor, ""]:
    """The cross-entropy of the network, and `prototypes` times that of a prototypical network on the same codes."""
    codes = model.codes(batch.images)
    total = cross_entropy(model.classify(codes, batch.labels), batch.classes)
    if prototypes:
        total = total + prototypes * cross_entropy(
            model.prototypes(codes, batch.labels), batch.classes
        )
    return total


def cross_entropy(
    logits: Float[Tensor, "batch query way"], classes: Int[Tensor, "batch query"]
) -> Float[Tensor, ""]:
    """The cross-entropy, summed over all queries."""
    return functional.cross_entropy(
        logits.flatten(0, 1), classes.flatten(), reduction="sum"
    )


def episodes(
    images: Pool, config: FewShot, count: int, seed: str
) -> Iterator[EpisodeBatch]:
    """`count` episodes in batches, without rotations."""
    data, sizes = config.data, [len(each) for each in images]
    for first in range(0, count, ROWS):
        numbers = range(first, min(first + ROWS, count))
        some = [
            draw(sizes, data.ways, data.shots, f"{seed}/{number}") for number in numbers
        ]
        yield collate_episodes(
            [(each, pixels_in(each, images)) for each in some], config
        )


@torch.no_grad()
def figures(
    model: FewShotSnail, images: Pool, config: FewShot, count: int
) -> dict[str, float]:
    """accuracy: the share of `count` episodes with a right prediction; standard-error: that of the share. Both in per
    cent."""
    device = next(model.parameters()).device

    def right(batch: EpisodeBatch) -> int:
        logits = model(batch.images.to(device), batch.labels.to(device))
        return int((logits.argmax(-1).cpu() == batch.classes).sum())

    share = (
        sum(
            computed(
                right, episodes(images, config, count, f"{config.data.seed}/measured")
            )
        )
        / count
    )
    return {
        "accuracy": 100 * share,
        "standard-error": 100 * (share * (1 - share) / count) ** 0.5,
    }
