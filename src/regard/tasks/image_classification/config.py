"""The run file of image classification."""

from dataclasses import dataclass, field
from typing import Literal

from regard.data.image_shards import ImageShards
from regard.data.images import IdxImages, ImageFolders, ImageTables
from regard.images import Augmentation, Preparation
from regard.models.catalog import ImageClassifierConfig
from regard.models.vit import VitConfig
from regard.tasks.class_prediction import ClassWeights
from regard.tasks.image_inputs import ImageSettings
from regard.training.settings import Training


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
