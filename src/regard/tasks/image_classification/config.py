"""The run file of image classification."""

from dataclasses import dataclass, field
from typing import Literal

from regard.data.image_inputs import first_image
from regard.data.image_shards import ImageShards
from regard.data.image_tables import ImageTables
from regard.data.images import IdxImages, ImageFolders
from regard.images import Preparation
from regard.images.augmentation import Augmentation
from regard.models.vit import VitConfig
from regard.tasks.class_prediction import ClassWeights
from regard.training.settings import Training


@dataclass(frozen=True, kw_only=True)
class ImageClassification:
    """A run file. `images` prepares images for the model; for another `size`, a whole number of patches, learned
    positions are interpolated. A batch has room for `training.batch_tokens` patches. `class_weights` weigh
    the classes in the loss, by default all by 1: `balanced`, or numbers of some classes."""

    task: Literal["image-classification"] = "image-classification"
    data: ImageFolders | IdxImages | ImageShards | ImageTables
    images: Preparation = field(default_factory=Preparation)
    augmentation: Augmentation = field(default_factory=Augmentation)
    model: VitConfig = field(default_factory=VitConfig)
    class_weights: ClassWeights = None
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
    def size(self) -> int:
        """The side of the images, in pixels."""
        return self.images.size or self.model.image

    @property
    def positions(self) -> int:
        """The number of positions of an image in a batch: its patches and the tokens before them."""
        return self.model.marks + (self.size // self.model.patch) ** 2

    @property
    def first_image(self) -> str | None:
        """The place of the first training image in a file of many; None for images in files of their own."""
        return first_image(self.data.train)
