"""Training of captioners: images and captions in batches, the loss and the set-up."""

from collections.abc import Sequence
from pathlib import Path

from torch import nn

from regard.data.images import digest_image
from regard.data.rows import convert_sets
from regard.data.splits import Splits
from regard.models.captioner import Captioner
from regard.models.catalog import build_captioner
from regard.storage.run_folder import RunDirectory
from regard.tasks.base import (
    Setup,
    TokenBatchObjective,
    check_beam,
    digest_splits,
    setup_task,
)
from regard.tasks.image_captioning.config import ImageCaptioning
from regard.tasks.image_captioning.data import CaptionBatch, Captioned, collate_captions
from regard.tasks.image_captioning.run import ImageCaptioningRun
from regard.tasks.options import EvaluationOptions
from regard.tasks.summary import (
    DataSummary,
    Lengths,
    describe_images,
    describe_rows,
    describe_tokens,
    encode_for_request,
    measure_text_lengths,
    measure_unknown_shares,
    sample_evenly,
    warn_unknown,
)
from regard.tasks.tokenizers import TOKENIZER, load_or_train
from regard.text import Tokenizer
from regard.training.attention_losses import AttentionLoss
from regard.training.objectives import Carried, Loss

PRETRAINED = {"encoder.vit": "encoder."}
"""The pretrained part of a model, with its parameters' prefix in the trunk's run."""


class CaptionObjective(TokenBatchObjective[Captioned, CaptionBatch]):
    """Maximum likelihood of each caption given its image, one token at a time."""

    higher_is_better = True

    def __init__(
        self,
        train: Sequence[Captioned],
        valid: Sequence[Captioned],
        tokenizer: Tokenizer,
        config: ImageCaptioning,
        model: Captioner,
    ):
        self.tokenizer = tokenizer
        self.config = config
        self.metric = config.metrics[0]
        self.attention_loss = AttentionLoss(config.attention_losses, model.decoder)
        self.captions = [
            (image, tokenizer.encode(config.normalize(text)))
            for image in train
            for text in image.captions
        ]
        lengths = [
            (config.cells, max(config.cells, len(ids) + 1)) for _, ids in self.captions
        ]
        super().__init__(train, valid, config.training, lengths, "captions")

    def place(self, index: int) -> str:
        return self.captions[index][0].place

    def batch(self, epoch: int, indices: list[int]) -> CaptionBatch:
        examples = []
        for index in indices:
            image, ids = self.captions[index]
            pixels = self.config.read_pixels(image)
            seed = self.settings.seed
            augmented = self.config.augmentation(pixels, seed, epoch, index)
            examples.append((self.config.images.tensor(augmented), ids))
        return collate_captions(examples, self.config.cells, self.tokenizer.special)

    def loss(
        self,
        model: nn.Module,
        batch: CaptionBatch,
        update: int,
        carried: Carried | None = None,
    ) -> Loss:
        assert isinstance(model, Captioner)
        total = self.attention_loss.of(
            model, (batch.images,), batch, self.settings, update
        )
        return Loss(total, batch.target_tokens)

    def validate(self, model: nn.Module) -> dict[str, float]:
        assert isinstance(model, Captioner)
        run = ImageCaptioningRun(self.config, model, self.tokenizer)
        return run.compute_metrics(self.valid, EvaluationOptions(beam=1))


def setup(config: ImageCaptioning, folder: RunDirectory, processes: int) -> Setup:
    """Read images and captions, check every image, and build model and objective.

    Raises:
        InputError: The images, the captions or the model are invalid.
    """
    splits = convert_sets(config.data.load(), config.check_image, config.data)
    texts = [
        config.normalize(text) for image in splits.train for text in image.captions
    ]
    tokenizer = load_or_train(folder, config.tokenizer, texts)
    model = build_captioner(config.model, tokenizer.size)
    check_beam(config.search.beam, tokenizer.size, "vocabulary")
    task = CaptionObjective(splits.train, splits.valid, tokenizer, config, model)
    details = [f"a vocabulary of {tokenizer.size:,}"]
    trunk = config.model.trunk
    if trunk is not None:
        weights = "stay" if trunk.frozen else "learn with the rest"
        details.append(f"images as {trunk.vit} prepares them, whose weights {weights}")
    return setup_task(
        model,
        task,
        splits,
        digest_splits(splits, identify),
        summarize(config, splits, tokenizer),
        counts=[f"{len(task.captions):,} captions"],
        details=details,
        tokenizers={TOKENIZER: tokenizer},
        pretrained={} if trunk is None else PRETRAINED,
    )


def identify(image: Captioned) -> str:
    """Return an image with its captions as a line, for the digest of the data."""
    return "\0".join((digest_image(image.image), *image.captions)) + "\n"


def summarize(
    config: ImageCaptioning, splits: Splits[Captioned], tokenizer: Tokenizer
) -> DataSummary:
    """Summarize images, and lengths and unknown characters of captions."""
    captions: dict[str, list[str]] = {}
    for name, images in splits.by_name.items():
        captions[name] = [
            config.normalize(text)
            for image in sample_evenly(images)
            for text in image.captions
        ]
    unknown = measure_unknown_shares(tokenizer, captions)
    train = sample_evenly(splits.train)
    first = splits.train[0]
    description, warnings = describe_images(
        [image.image for image in train],
        config.model.image,
        config.model.channels,
        cropped=config.images.shape == "kept",
    )
    held_out = {name: share for name, share in unknown.items() if name != "train"}
    ids = [*tokenizer.encode(captions["train"][0]), tokenizer.special.end]
    return DataSummary(
        unit="images",
        rows=describe_rows(config.data, splits),
        lengths={
            "captions": measure_text_lengths(tokenizer, captions["train"]),
            "captions an image": Lengths.of([len(image.captions) for image in train]),
        },
        unknown=unknown,
        unknown_unit=tokenizer.unknown_unit,
        images=description,
        example={
            "image": str(first.image) if isinstance(first.image, Path) else first.place,
            "caption": describe_tokens(tokenizer, ids),
        },
        request={"image": encode_for_request(first.image)},
        warnings=(*warnings, *warn_unknown(tokenizer, held_out)),
    )
