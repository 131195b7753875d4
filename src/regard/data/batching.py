"""Batches of padded sequences."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from regard.shapes import Float, Int
from regard.text.special import IGNORED, SPECIAL, SpecialTokens

LENGTH_MULTIPLE, ROW_MULTIPLE = 4, 8
"""Training batches are padded to a multiple of so many tokens and cut to a multiple of so many rows. Shapes then recur,
so oneDNN compiles fewer of them; compilation took a third of a training step before (docs/log.md)."""

N = TypeVar("N", int, np.ndarray)


def rounded(length: N, multiple: int) -> N:
    """The length, or each of an array, rounded up to a multiple."""
    return -(-length // multiple) * multiple


B = TypeVar("B", bound="Batch")


class Batch:
    """A frozen dataclass of tensors and numbers, without a `repr` of its own."""

    def __repr__(self) -> str:
        parts = (
            f"{name}={_shown(part)}"
            for name, part in vars(self).items()
            if part is not None
        )
        return f"{type(self).__name__}({', '.join(parts)})"

    def to(self: B, device: torch.device | str) -> B:
        """The same batch on `device`."""
        parts = vars(self).items()
        moved = {
            name: part.to(device, non_blocking=True)
            for name, part in parts
            if isinstance(part, Tensor)
        }
        changed: Any = replace(self, **moved)  # pyright: ignore[reportArgumentType]
        return changed


class InputBatch(Batch, ABC):
    """A batch of texts that has the arguments of a model."""

    @property
    @abstractmethod
    def inputs(self) -> tuple[Tensor, ...]:
        """The arguments of the model, in order."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of tokens, without padding."""


def _shown(part: Any) -> str:
    """A tensor by its type and sizes, any other value by the first of its `repr`."""
    if isinstance(part, Tensor):
        return f"{str(part.dtype).removeprefix('torch.')}{list(part.shape)}"
    text = repr(part)
    return text if len(text) <= 40 else f"{text[:40]}..."


def padded(
    rows: Sequence[Sequence[int]], multiple: int = 1, fill: int = 0
) -> tuple[Int[Tensor, "batch position"], Int[Tensor, " batch"]]:
    """Ids as one tensor, padded with `fill` to a multiple of `multiple`, and the length of each row. Models use the
    lengths, so `fill` may be any id."""
    lengths = [len(row) for row in rows]
    longest = rounded(max(lengths, default=0), multiple)
    whole = [[*row, *[fill] * (longest - len(row))] for row in rows]
    return torch.tensor(whole, dtype=torch.int64).reshape(
        len(rows), longest
    ), torch.tensor(lengths, dtype=torch.int64)


@dataclass(frozen=True, repr=False)
class PairBatch(Batch):
    """Ids (int64), padded on the right. The decoder reads `target_in` and predicts `target_out`, which is padded with
    `IGNORED`.

    `target_lengths` counts the positions of either, with start or end. `target_tokens` is their sum, kept as a number
    because reading it from an accelerator would wait for the device. `links` are the reference alignment of each target
    position, the end included: rows sum to 1, or to 0 without a reference."""

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
    """Pad (source ids, target ids) pairs. Each target gets a start and an end; each source gets an end unless
    `source_end` is False. Both sides are padded to a multiple of `multiple`.

    Raises ValueError for an empty list."""
    if not examples:
        raise ValueError("collate() got no examples; expected at least one")
    sources, lengths = padded(
        [[*ids, source.end] if source_end else ids for ids, _ in examples], multiple
    )
    target_in, target_lengths = padded(
        [[target.start, *ids] for _, ids in examples], multiple
    )
    target_out, _ = padded(
        [[*ids, target.end] for _, ids in examples], multiple, IGNORED
    )
    return PairBatch(
        sources,
        lengths,
        target_in,
        target_out,
        target_lengths,
        sum(len(ids) + 1 for _, ids in examples),
    )
