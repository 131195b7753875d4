"""What a run file of this task says."""

from dataclasses import dataclass, field
from typing import Literal

from regard.data.episodes import FolderEpisodes, OmniglotEpisodes
from regard.images import Preparation
from regard.models.snail import SnailConfig
from regard.training.settings import Training


@dataclass(frozen=True, kw_only=True)
class FewShot:
    """A run, whole. `images` says how they become what the model is given. A batch has room for
    `training.batch_tokens` images."""

    task: Literal["few-shot"] = "few-shot"
    data: FolderEpisodes | OmniglotEpisodes
    images: Preparation = field(default_factory=Preparation)
    model: SnailConfig = field(default_factory=SnailConfig)
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        if self.images.size not in (None, self.model.side):
            raise ValueError(f"images.size is {self.images.size}, but model.side {self.model.side}; set that alone")
        if self.training.label_smoothing:
            raise ValueError("training.label_smoothing is set; episodes are not smoothed, set it to 0")

    @property
    def count(self) -> int:
        """Images of an episode."""
        return self.data.ways * self.data.shots + 1
