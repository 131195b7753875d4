"""The run file of image captioning."""

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from regard.images import Augmentation, Preparation
from regard.metrics import TextMetricName
from regard.models.catalog import CaptionerConfig
from regard.tasks.fine_tuning import PretrainedPart, PretrainedSource
from regard.tasks.generating_config import GeneratingSettings
from regard.tasks.image_captioning.data import CaptionTables, Scenes
from regard.tasks.image_inputs import ImageSettings


@dataclass(frozen=True, kw_only=True)
class ImageCaptioning(ImageSettings, GeneratingSettings, PretrainedSource):
    """The run file of image captioning.

    A batch has room for `training.batch_tokens` cells and words. With `model.trunk` the
    `images` of the trunk's run replace those of this file.
    """

    task: Literal["image-captioning"] = "image-captioning"
    data: Scenes | CaptionTables
    images: Preparation = field(default_factory=Preparation)
    augmentation: Augmentation = field(default_factory=Augmentation)
    model: CaptionerConfig
    metrics: tuple[TextMetricName, ...] = ("cider", "bleu", "rouge-l")
    """Metrics of validation and test; the first chooses the best weights."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.source_part is None or self.source_part.has_sizes:
            self.check_sizes(self.model.image)
        if self.augmentation.flip and isinstance(self.data, Scenes):
            raise ValueError(
                "augmentation.flip turns left into right, which the captions of scenes describe; set it false"
            )

    @property
    def source_part(self) -> PretrainedPart | None:
        """The trunk of the model."""
        trunk = self.model.trunk
        if trunk is None:
            return None
        return PretrainedPart(
            "model.trunk.vit",
            trunk.vit,
            "image-classification",
            "`regard train vit` or `regard import`",
            trunk.sizes is not None,
        )

    def with_sizes(self, source: Any) -> "ImageCaptioning":
        """Return the run file with the trunk's sizes and the `images` of its run."""
        assert self.model.trunk is not None
        model = replace(
            self.model,
            image=source.size,
            channels=source.model.channels,
            stages=(),
            trunk=replace(self.model.trunk, sizes=source.model),
        )
        return replace(self, images=source.images, model=model)

    @property
    def cells(self) -> int:
        """The number of cells of an image, the decoder's memory."""
        return self.model.side**2

    def normalize(self, caption: str) -> str:
        """Return a caption as the tokenizer reads it, lowercased with `lower`."""
        return caption.lower() if self.lower else caption
