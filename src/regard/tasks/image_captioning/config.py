"""The run file of image captioning."""

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from regard.decoding.search import Search
from regard.images import Augmentation, Pixels, Preparation
from regard.metrics import TextMetricName
from regard.models.catalog import CaptionerConfig
from regard.tasks.fine_tuning import PretrainedPart, PretrainedSource
from regard.tasks.image_captioning.data import Captioned, CaptionTables, Scenes
from regard.text import TokenizerSettings
from regard.training.attention_losses import AttentionLosses
from regard.training.settings import Training


@dataclass(frozen=True, kw_only=True)
class ImageCaptioning(PretrainedSource):
    """The run file of image captioning.

    A batch has room for `training.batch_tokens` cells and words. With `model.trunk` the
    `images` of the trunk's run replace those of this file.
    """

    task: Literal["image-captioning"] = "image-captioning"
    data: Scenes | CaptionTables
    tokenizer: TokenizerSettings
    images: Preparation = field(default_factory=Preparation)
    augmentation: Augmentation = field(default_factory=Augmentation)
    model: CaptionerConfig
    metrics: tuple[TextMetricName, ...] = ("cider", "bleu", "rouge-l")
    """Metrics of validation and test; the first chooses the best weights."""
    training: Training = field(default_factory=Training)
    search: Search = field(default_factory=Search)
    attention_losses: AttentionLosses = field(default_factory=AttentionLosses)
    lower: bool = True
    """Lowercase captions."""

    def __post_init__(self) -> None:
        if not self.metrics:
            raise ValueError("`metrics` is empty; name at least one")
        if self.source_part is None or self.source_part.has_sizes:
            if self.images.size not in (None, self.model.image):
                raise ValueError(
                    f"images.size is {self.images.size}, but model.image is "
                    f"{self.model.image}; remove images.size"
                )
            self.images.check_channels(self.model.channels)
        if self.augmentation.flip and isinstance(self.data, Scenes):
            raise ValueError(
                "augmentation.flip turns left into right, which the captions of scenes describe; set it false"
            )
        if self.tokenizer.dropout:
            raise ValueError(
                "tokenizer.dropout is for seq2seq; captions are cut in one way"
            )
        if self.attention_losses.guided:
            raise ValueError(
                "attention_losses.guided needs word links, and images have none; remove it"
            )

    @property
    def source_part(self) -> PretrainedPart | None:
        """The trunk of the model."""
        trunk = self.model.trunk
        if trunk is None:
            return None
        command = "`regard train vit` or `regard import`"
        return PretrainedPart(
            "model.trunk.vit",
            trunk.vit,
            "image-classification",
            command,
            trunk.sizes is not None,
        )

    def with_sizes(self, source: Any) -> "ImageCaptioning":
        """Return the run file with the trunk's sizes and the `images` of its run."""
        assert self.model.trunk is not None
        trunk = replace(self.model.trunk, sizes=source.model)
        model = replace(
            self.model,
            image=source.size,
            channels=source.model.channels,
            stages=(),
            trunk=trunk,
        )
        return replace(self, images=source.images, model=model)

    @property
    def cells(self) -> int:
        """The number of cells of an image, the decoder's memory."""
        return self.model.side**2

    def read_pixels(self, image: Captioned) -> Pixels:
        """Read an image as the model's input. Raises InputError for an unreadable one."""
        size = self.model.image
        channels = self.model.channels
        return self.images.pixels(image.image, size, channels, image.place)

    def check_image(self, image: Captioned) -> Captioned:
        """Return the image. Raises InputError for one that can't be read."""
        self.read_pixels(image)
        return image

    def normalize(self, caption: str) -> str:
        """Return a caption as the tokenizer reads it, lowercased with `lower`."""
        return caption.lower() if self.lower else caption
