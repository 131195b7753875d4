"""Training of captioners: images and captions in batches, the loss and the metrics."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.data.pieces import JsonCodec, Pieces, cut_up
from regard.data.token_batches import batch_size, token_batches
from regard.decoding.constraints import DecodingConstraints
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.search import Search
from regard.metrics.text import METRICS
from regard.models.captioner import Captioner
from regard.shapes import Float
from regard.tasks.image_captioning.attribution import pixels_of
from regard.tasks.image_captioning.config import ImageCaptioning
from regard.tasks.image_captioning.data import CaptionBatch, Captioned, collate_captions
from regard.tasks.image_captioning.grounding import POINTING, pointing
from regard.text import Tokenizer
from regard.training.attention_losses import AttentionLoss
from regard.training.objective import Carried, Loss
from regard.work import computed

ROWS = 64
"""Images in one batch of decoding."""


class CaptionObjective:
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
        """Raises InputError for no captions, and for an attention loss that the model does not allow."""
        self.images, self.valid, self.tokenizer, self.config = (
            train,
            valid,
            tokenizer,
            config,
        )
        self.settings, self.metric = config.training, config.metrics[0]
        self.attention_loss = AttentionLoss(config.attention_losses, model.decoder)
        self.train = encoded_captions(train, tokenizer, config)
        cells = np.full(len(self.train.items), config.cells, dtype=np.int32)
        self.lengths = np.stack([cells, np.maximum(cells, self.train.lengths + 1)], 1)
        self.tokens = batch_size(
            self.lengths, self.settings.batch_tokens, "training captions"
        )

    def place(self, index: int) -> str:
        """Where a training caption came from."""
        return self._image(index).place

    def batches(self, epoch: int) -> Sequence[list[int]]:
        return token_batches(self.lengths, self.tokens, self.settings.seed, epoch)

    def batch(self, epoch: int, indices: list[int]) -> CaptionBatch:
        examples = [
            (self._seen(epoch, index), self.train.items[index]) for index in indices
        ]
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
        return figures(
            model,
            self.tokenizer,
            self.valid,
            self.config,
            self.config.search.searching(beam=1),
        )

    def _seen(self, epoch: int, index: int) -> Float[Tensor, "channel height width"]:
        """The augmented image of an epoch, with this caption."""
        pixels = pixels_of(self._image(index), self.config)
        return self.config.images.tensor(
            self.config.augmentation(pixels, self.settings.seed, epoch, index)
        )

    def _image(self, index: int) -> Captioned:
        """The image of a training caption."""
        return self.images[int(self.train.owners[index])]


def encoded_captions(
    images: Sequence[Captioned], tokenizer: Tokenizer, config: ImageCaptioning
) -> Pieces[list[int]]:
    """The ids of all captions of images, one after the other; of images on disk they are made once."""

    def cut(each: Captioned) -> list[list[int]]:
        return [tokenizer.encode(read(text, config)) for text in each.captions]

    return cut_up(
        images,
        f"captions {tokenizer.digest} {config.lower}",
        cut,
        len,
        JsonCodec(list, list),
    )


def read(caption: str, config: ImageCaptioning) -> str:
    """A caption as the tokenizer's input: lowercased with `lower`."""
    return caption.lower() if config.lower else caption


def tensors(
    images: Sequence[Captioned], config: ImageCaptioning, device: torch.device
) -> Float[Tensor, "batch channel height width"]:
    """Images as the model's input. Raises InputError for one that cannot be read."""
    return torch.stack(
        [config.images.tensor(pixels_of(each, config)) for each in images]
    ).to(device)


@torch.no_grad()
def decode(
    model: Captioner,
    images: Sequence[Captioned],
    config: ImageCaptioning,
    search: Search,
    constraints: DecodingConstraints | None = None,
) -> list[list[Hypothesis]]:
    """The captions of each image under the constraints, best first. Raises InputError for an image that cannot be read,
    and ValueError where the search finds fewer."""

    def decoded(first: int) -> list[list[Hypothesis]]:
        memory, limit = encoded(model, images[first : first + ROWS], config, search)
        return search(model.decoder, memory, limit, constraints)

    return [
        each for some in computed(decoded, range(0, len(images), ROWS)) for each in some
    ]


@torch.no_grad()
def encoded(
    model: Captioner,
    images: Sequence[Captioned],
    config: ImageCaptioning,
    search: Search,
) -> tuple[Memory, Tensor]:
    """The memory of images, and the limit of tokens of each caption, `(batch,)`. Raises InputError for an image that
    cannot be read."""
    device = next(model.parameters()).device
    memory = model.encoder(tensors(images, config, device))
    return memory, search.limit(
        torch.zeros(len(images), dtype=torch.int64, device=device)
    )


def figures(
    model: Captioner,
    tokenizer: Tokenizer,
    images: Sequence[Captioned],
    config: ImageCaptioning,
    search: Search,
) -> dict[str, float]:
    """The run's metrics, and the grounding of words in the image where boxes are known."""
    ids = [list(best.tokens) for best, *_ in decode(model, images, config, search)]
    found = [tokenizer.decode(each) for each in ids]
    references = [[read(text, config) for text in each.captions] for each in images]
    scores: dict[str, float] = {
        name: METRICS[name](found, references) for name in config.metrics
    }
    share = pointing(model, tokenizer, images, ids, config)
    return scores if share is None else scores | {POINTING: share}
