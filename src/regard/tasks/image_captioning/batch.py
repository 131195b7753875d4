"""A padded batch of images and what is said of them, in the layout that teacher forcing needs."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.data.batching import Batch, collate
from regard.shapes import Float, Int
from regard.text.special import SPECIAL, SpecialTokens


@dataclass(frozen=True)
class CaptionBatch(Batch):
    """Images of one size, with ids (int64) padded on the right: the decoder reads `target_in` and should predict
    `target_out`, padded with `IGNORED`. `source_lengths` counts the cells of each image, and `target_tokens` the tokens
    of all captions, the end included. Nothing is known of where a word should look: `links` are none."""

    images: Float[Tensor, "batch channel height width"]
    source_lengths: Int[Tensor, " batch"]
    target_in: Int[Tensor, "batch target"]
    target_out: Int[Tensor, "batch target"]
    target_tokens: int
    links: None = None


def collate_captions(
    examples: Sequence[tuple[Float[Tensor, "channel height width"], list[int]]],
    cells: int,
    special: SpecialTokens = SPECIAL,
) -> CaptionBatch:
    """Images of so many cells with the ids of a caption each. Raises ValueError for no examples at all."""
    words = collate([([], ids) for _, ids in examples], target=special)
    images = torch.stack([image for image, _ in examples])
    lengths = torch.full((len(examples),), cells)
    return CaptionBatch(images, lengths, words.target_in, words.target_out, words.target_tokens)
