"""A padded batch of pairs as tensors, in the layout that teacher forcing needs."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from regard.data.batch import Batch, padded
from regard.shapes import Float, Int
from regard.text.special import END, START


@dataclass(frozen=True)
class PairBatch(Batch):
    """Ids (int64), padded on the right with PAD. The decoder reads `target_in` and should say `target_out`.

    `target_lengths` counts positions of either, so START or END is included. `target_tokens` is their sum, kept as a
    number because reading it off an accelerator would wait for the device. `links` say where each target position
    should read, END included: rows sum to 1, or to 0 where nothing is known.
    """

    source: Int[Tensor, "batch source"]
    source_lengths: Int[Tensor, " batch"]
    target_in: Int[Tensor, "batch target"]
    target_out: Int[Tensor, "batch target"]
    target_lengths: Int[Tensor, " batch"]
    target_tokens: int
    links: Float[Tensor, "batch target source"] | None = None


def collate(
    examples: Sequence[tuple[list[int], list[int]]], *, source_end: bool = True, multiple: int = 1
) -> PairBatch:
    """Pads (source ids, target ids) pairs. START goes before, END after each target; END after each source by default.
    Both sides are padded to a multiple of `multiple`.

    Raises ValueError for no examples at all.
    """
    if not examples:
        raise ValueError("collate() got no examples; expected at least one")
    sources = [[*source, END] if source_end else source for source, _ in examples]
    source, source_lengths = padded(sources, multiple)
    target_in, target_lengths = padded([[START, *target] for _, target in examples], multiple)
    target_out, _ = padded([[*target, END] for _, target in examples], multiple)
    return PairBatch(
        source, source_lengths, target_in, target_out, target_lengths, sum(len(target) + 1 for _, target in examples)
    )
