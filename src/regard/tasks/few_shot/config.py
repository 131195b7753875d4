"""The run file of few-shot classification."""

from dataclasses import dataclass, field
from typing import Literal

from regard.images import Preparation
from regard.images.augmentation import Augmentation
from regard.models.few_shot_snail import SnailConfig
from regard.tasks.few_shot.data import FolderEpisodes, OmniglotEpisodes
from regard.tasks.few_shot.tables import TableEpisodes
from regard.training.settings import Amount, Training


@dataclass(frozen=True, kw_only=True)
class FewShot:
    """A run file. `images` prepares images for the model, `augmentation` changes training images at random. A batch has
    room for `training.batch_tokens` images."""

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
                f"images.size is {self.images.size}, but model.side {self.model.side}; set that alone"
            )
        if self.augmentation.flip:
            raise ValueError(
                "augmentation.flip mirrors half of a class; data.mirrored makes it another class"
            )
        if self.training.label_smoothing:
            raise ValueError(
                "training.label_smoothing is set; episodes are not smoothed, set it to 0"
            )

    @property
    def count(self) -> int:
        """The number of images of a training episode."""
        return self.data.ways * self.data.shots + self.data.questions
