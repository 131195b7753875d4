"""Image captioning, with the attention of each word to places of the image."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.data.images import digest_image
from regard.data.rows import convert_sets
from regard.decoding.streaming import StreamSource
from regard.errors import InputError
from regard.images import Augmentation, Image, Preparation
from regard.maps.lookups import ImagePatches, patch_labels
from regard.metrics import METRICS, Metrics, TextMetricName
from regard.models.captioner import Captioner
from regard.models.catalog import CAPTIONERS, CaptionerConfig
from regard.models.pretrained import PretrainedVisionConfig
from regard.models.published_images import read_tower
from regard.pictures.overlay import overlays
from regard.storage.run_folder import RunDirectory
from regard.tasks.base import TOKENIZER, Setup, digest_splits, setup_task
from regard.tasks.fine_tuning import PretrainedPart, PretrainedSource
from regard.tasks.generating import (
    GeneratingBatch,
    GeneratingObjective,
    GeneratingRun,
    GeneratingSettings,
)
from regard.tasks.image_captioning.data import (
    Box,
    Captioned,
    CaptionTables,
    Scenes,
)
from regard.tasks.image_inputs import ImageRun, ImageSettings
from regard.tasks.options import EvaluationOptions
from regard.tasks.run import Task
from regard.tasks.summary import encode_for_request, summarize_texts
from regard.text import Tokenizer
from regard.training.objectives import Carried, Loss


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
            "model.trunk.path",
            trunk.path,
            "image-classification",
            "`regard train vit` or `regard import`",
            trunk.sizes is not None,
            lambda path: read_tower(path, trunk.image),
        )

    def with_sizes(self, source: Any) -> "ImageCaptioning":
        """Return the run file with the trunk's sizes, and images as the trunk has them.

        Raises:
            InputError: The run is one of a published model, or cuts images of
                `model.trunk.image` pixels into no whole number of patches.
        """
        trunk = self.model.trunk
        assert trunk is not None
        sizes = source.model
        if isinstance(sizes, PretrainedVisionConfig):
            raise InputError(
                f"model.trunk.path: {trunk.path} is a run of the published model "
                f"{sizes.path}; name that model"
            )
        size = trunk.image or source.size
        images = source.images
        if size != source.size:
            if size % sizes.patch:
                raise InputError(
                    f"model.trunk.image is {size}; choose {sizes.patch} x a whole number"
                )
            images = images.rescale(size, source.size)
        model = replace(
            self.model,
            image=size,
            channels=sizes.channels,
            stages=(),
            trunk=replace(trunk, sizes=sizes),
        )
        return replace(self, images=images, model=model)

    @property
    def cells(self) -> int:
        """The number of cells of an image, the decoder's memory."""
        return self.model.side**2

    def normalize(self, caption: str) -> str:
        """Return a caption as the tokenizer reads it, lowercased with `lower`."""
        return caption.lower() if self.lower else caption


if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEAT_NOTE = "attention weights: where in the image each word attends"
GATE_NOTE = "gate: how much of the image enters the word, 0 none to 1 all"
POINTING = "pointing"
"""The metric of the mean attention in the box of the object that a word names."""


class ImageCaptioningRun(ImageRun, GeneratingRun[Image, Captioned]):
    """A trained model with its tokenizer and its run file. Examples are images."""

    does = "Describes an image in words."
    config: ImageCaptioning
    model: Captioner
    source_name = "image"
    tables = CaptionTables
    data_hint = "give images with captions"
    has_contrast = True

    @staticmethod
    def build(config: ImageCaptioning, tokenizer: Tokenizer) -> Captioner:
        return CAPTIONERS.build(config.model, tokenizer.size)

    def prepare(self, example: Image, name: str) -> Captioned:
        return Captioned(example, (), name)

    def check(self, source: Captioned) -> Captioned:
        return self.config.check_image(source)

    def encode(self, sources: Sequence[Captioned]) -> tuple[Memory, Tensor]:
        images = self.config.read_batch(sources).to(self.device)
        lengths = torch.zeros(len(sources), dtype=torch.int64, device=self.device)
        return self.model.encoder(images), lengths

    def label_source(self, source: Captioned) -> StreamSource:
        side = self.config.model.side
        photo = self.config.images.photograph(source.image, self.config.model.image)
        return StreamSource(patch_labels(side, side), ImagePatches(photo, side, side))

    def normalize_target(self, text: str) -> str:
        return self.config.normalize(text)

    def compute_metrics(
        self, examples: Sequence[Captioned], options: EvaluationOptions
    ) -> Metrics:
        """Return the run's metrics, and how words point at objects with known boxes."""
        search = self.config.search.with_beam(options.beam)
        ids = [list(best.tokens) for best, *_ in self.search(examples, search)]
        outputs = [self.tokenizer.decode(tokens) for tokens in ids]
        references = [
            [self.config.normalize(caption) for caption in image.captions]
            for image in examples
        ]
        scores: Metrics = {
            name: METRICS[name](outputs, references) for name in self.config.metrics
        }
        share = self.measure_pointing(examples, ids)
        return scores if share is None else scores | {POINTING: share}

    def measure_pointing(
        self, images: Sequence[Captioned], captions: Sequence[Sequence[int]]
    ) -> float | None:
        """Return the mean attention in the boxes of named objects, in per cent.

        A word that names an object of other images only counts as 0.

        Returns:
            None for images without boxes, captions without such words, or a model
            without attention.
        """
        names = {name for image in images for name in image.boxes}
        if self.model.decoder.source_attention is None:
            return None
        shares: list[float] = []
        for image, ids in zip(images, captions, strict=True):
            pieces = self.tokenizer.pieces(ids)
            if names.isdisjoint(pieces):
                continue
            maps, _, _ = self.record_output(image, ids)
            weights = maps.mean((0, 1))
            for position, word in enumerate(pieces):
                if word in image.boxes:
                    inside = overlap(image.boxes[word], self.config.model.side)
                    shares.append(float(weights[position] @ inside.ravel()))
                elif word in names:
                    shares.append(0.0)
        return 100 * sum(shares) / len(shares) if shares else None

    def plot(
        self,
        source: Captioned,
        patches: ImagePatches,
        tokens: tuple[str, ...],
        weights: np.ndarray,
        remarks: tuple[str, ...],
        title: str,
        **options: Any,
    ) -> "Figure":
        notes = [HEAT_NOTE, GATE_NOTE] if remarks else [HEAT_NOTE]
        return overlays(
            patches.pixels,
            weights,
            tokens,
            title=title,
            remarks=remarks,
            notes=notes,
            **options,
        )


def overlap(box: Box, side: int) -> np.ndarray:
    """Return the share of each of `side` x `side` cells that lies in a box, 0 to 1."""
    edges = np.arange(side + 1) / side
    shares = []
    for first, last in ((box[0], box[2]), (box[1], box[3])):
        covered = np.minimum(edges[1:], last) - np.maximum(edges[:-1], first)
        shares.append(np.clip(covered, 0, None) * side)
    return np.outer(*shares)


PRETRAINED = {"encoder.vit": "encoder."}
"""The pretrained part of a model, with its parameters' prefix in the trunk's run."""


KEPT_BYTES = 1 << 30
"""The most bytes of states of a frozen trunk that are kept in training."""


class CaptionObjective(GeneratingObjective[Captioned]):
    """Maximum likelihood of each caption given its image, one token at a time.

    On a CPU a frozen trunk reads each image once, as long as the states fit into
    `KEPT_BYTES`: they are a function of the pixels only.
    """

    higher_is_better = True

    def __init__(
        self,
        run: ImageCaptioningRun,
        train: Sequence[Captioned],
        valid: Sequence[Captioned],
    ):
        encode = run.tokenizer.encode
        self.captions = [
            (image, encode(run.config.normalize(text)))
            for image in train
            for text in image.captions
        ]
        cells = run.config.cells
        super().__init__(
            run,
            train,
            valid,
            [(cells, max(cells, len(ids) + 1)) for _, ids in self.captions],
            "captions",
        )
        self.states: dict[bytes, Tensor] = {}
        self.kept_bytes = 0

    def place(self, index: int) -> str:
        return self.captions[index][0].place

    def batch(self, epoch: int, indices: list[int]) -> GeneratingBatch:
        captions = [self.captions[index] for index in indices]
        seed = self.settings.seed
        pixels = [
            self.config.augment(image, seed, epoch, index)
            for index, (image, _) in zip(indices, captions, strict=True)
        ]
        cells = torch.full((len(indices),), self.config.cells)
        ids = [ids for _, ids in captions]
        return self.make_batch(torch.stack(pixels), cells, cells, ids)

    def loss(
        self,
        model: nn.Module,
        batch: GeneratingBatch,
        update: int,
        carried: Carried | None = None,
    ) -> Loss:
        assert isinstance(model, Captioner)
        source = batch.source
        trunk = self.config.model.trunk
        if trunk is not None and trunk.frozen and source.device.type == "cpu":
            source = torch.stack([self.read_states(model, image) for image in source])
        total = self.attention_loss.of(model, (source,), batch, self.settings, update)
        return Loss(total, batch.target_tokens)

    def read_states(self, model: Captioner, image: Tensor) -> Tensor:
        """Return a frozen trunk's states of an image, which are computed once.

        It is read alone: in a batch the last bits would depend on the other images.
        """
        key = hashlib.sha256(image.numpy().tobytes()).digest()
        states = self.states.get(key)
        if states is None:
            states = model.encoder.read(image[None])[0]
            self.kept_bytes += states.nbytes
            if self.kept_bytes <= KEPT_BYTES:
                self.states[key] = states
        return states


def setup(config: ImageCaptioning, folder: RunDirectory, processes: int) -> Setup:
    """Read images and captions, check every image, and build model and objective.

    Raises:
        InputError: The images, the captions or the model are invalid.
    """
    splits = convert_sets(config.data.load(), config.check_image, config.data)
    texts = [
        config.normalize(text) for image in splits.train for text in image.captions
    ]
    run = ImageCaptioningRun.create(config, folder, texts)
    objective = CaptionObjective(run, splits.train, splits.valid)
    details = [f"a vocabulary of {run.tokenizer.size:,}"]
    trunk = config.model.trunk
    if trunk is not None:
        weights = "stay" if trunk.frozen else "learn with the rest"
        details.append(f"images as {trunk.path} prepares them, whose weights {weights}")
    first = splits.train[0].image
    images, warnings = config.describe(splits.train)
    place = str(first) if isinstance(first, Path) else splits.train[0].place
    read_caption = run.tokenizer, lambda image: config.normalize(image.captions[0])
    summary = summarize_texts(
        config.data,
        splits,
        {"caption": read_caption},
        unit="images",
        images=images,
        example={"image": place},
        request={"image": encode_for_request(first)},
        warnings=warnings,
    )
    return setup_task(
        run.model,
        objective,
        splits,
        digest_splits(
            splits,
            lambda image: (
                "\0".join((digest_image(image.image), *image.captions)) + "\n"
            ),
        ),
        summary,
        counts=[f"{len(texts):,} captions"],
        details=details,
        tokenizers={TOKENIZER: run.tokenizer},
        pretrained={} if trunk is None else PRETRAINED,
    )


TASK = Task(
    ImageCaptioning, setup, ImageCaptioningRun, command="regard predict {} IMAGE"
)
