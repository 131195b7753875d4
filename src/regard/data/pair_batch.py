"""A padded batch of pairs as tensors, in the layout that teacher forcing needs."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from regard.data.batch import Batch, padded
from regard.shapes import Float, Int
from regard.text.special import IGNORED, SPECIAL, SpecialTokens


@dataclass(frozen=True)
class PairBatch(Batch):
    """Ids (int64), padded on the right. The decoder reads `target_in` and should predict `target_out`, which is padded
    with `IGNORED`.

    `target_lengths` counts positions of either, so start or end is included. `target_tokens` is their sum, kept as a
    number because reading it off an accelerator would wait for the device. `links` say where each target position
    should read, the end included: rows sum to 1, or to 0 where nothing is known.
    """

    source: Int[Tensor, "batch source"]
    source_lengths: Int[Tensor, " batch"]
    target_in: Int[Tensor, "batch target"]
    target_out: Int[Tensor, "batch target"]
    target_lengths: Int[Tensor, " batch"]
    target_tokens: int
    links: Float[Tensor, "batch target source"] | None = None


def collate(
    examples: Sequence[tuple[list[int], list[int]]],
    source: SpecialTokens = SPECIAL,
    target: SpecialTokens = SPECIAL,
    *,
    source_end: bool = True,
    multiple: int = 1,
) -> PairBatch:
    """Pads (source ids, target ids) pairs of vocabularies with these special ids. The start goes before, the end after
    each target; the end after each source by default. Both sides are padded to a multiple of `multiple`.

    Raises ValueError for no examples at all.
    """
    if not examples:
        raise ValueError("collate() got no examples; expected at least one")
    sources, lengths = padded([[*ids, source.end] if source_end else ids for ids, _ in examples], multiple)
    target_in, target_lengths = padded([[target.start, *ids] for _, ids in examples], multiple)
    target_out, _ = padded([[*ids, target.end] for _, ids in examples], multiple, IGNORED)
    return PairBatch(sources, lengths, target_in, target_out, target_lengths, sum(len(ids) + 1 for _, ids in examples))
