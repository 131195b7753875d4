"""A padded batch of pairs as tensors, in the layout that teacher forcing needs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.data.batches import rounded
from regard.shapes import Float, Int
from regard.text.special import END, PAD, START


@dataclass(frozen=True)
class PairBatch:
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

    def to(self, device: torch.device | str) -> "PairBatch":
        """The same batch on `device`."""
        return replace(
            self,
            source=self.source.to(device, non_blocking=True),
            source_lengths=self.source_lengths.to(device, non_blocking=True),
            target_in=self.target_in.to(device, non_blocking=True),
            target_out=self.target_out.to(device, non_blocking=True),
            target_lengths=self.target_lengths.to(device, non_blocking=True),
            links=None if self.links is None else self.links.to(device, non_blocking=True),
        )


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
    source, source_lengths = _padded(sources, multiple)
    target_in, target_lengths = _padded([[START, *target] for _, target in examples], multiple)
    target_out, _ = _padded([[*target, END] for _, target in examples], multiple)
    return PairBatch(
        source, source_lengths, target_in, target_out, target_lengths, sum(len(target) + 1 for _, target in examples)
    )


def _padded(rows: list[list[int]], multiple: int) -> tuple[Int[Tensor, "batch position"], Int[Tensor, " batch"]]:
    lengths = [len(row) for row in rows]
    longest = rounded(max(lengths), multiple)
    padded = [row + [PAD] * (longest - len(row)) for row in rows]
    return torch.tensor(padded, dtype=torch.int64).reshape(len(rows), longest), torch.tensor(lengths)
