"""Training of captioners: images and captions in batches, the loss and the set-up."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

from regard.data.images import digest_image
from regard.data.rows import convert_sets
from regard.models.captioner import Captioner
from regard.storage.run_folder import RunDirectory
from regard.tasks.base import TOKENIZER, Setup, digest_splits, setup_task
from regard.tasks.generating import GeneratingBatch, GeneratingObjective
from regard.tasks.image_captioning.config import ImageCaptioning
from regard.tasks.image_captioning.data import Captioned
from regard.tasks.image_captioning.run import ImageCaptioningRun
from regard.tasks.summary import encode_for_request, summarize_texts
from regard.training.objectives import Carried, Loss

PRETRAINED = {"encoder.vit": "encoder."}
"""The pretrained part of a model, with its parameters' prefix in the trunk's run."""


class CaptionObjective(GeneratingObjective[Captioned]):
    """Maximum likelihood of each caption given its image, one token at a time."""

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
        total = self.attention_loss.of(
            model, (batch.source,), batch, self.settings, update
        )
        return Loss(total, batch.target_tokens)


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
        details.append(f"images as {trunk.vit} prepares them, whose weights {weights}")
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
