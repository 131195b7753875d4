"""Batches of examples, and limits on the length of sequences.

Batches are a pure function of lengths, size, seed and epoch, so a resumed run repeats them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, TypeVar

import torch
from torch import Tensor

from regard.errors import InputError
from regard.shapes import Float, Int
from regard.text.special import IGNORED, SPECIAL, SpecialTokens

LENGTH_MULTIPLE, ROW_MULTIPLE = 4, 8
"""Training batches are padded to a multiple of so many tokens and cut to a multiple of so many rows. Shapes then recur,
so oneDNN compiles fewer of them; compilation took a third of a training step before (docs/log.md)."""

Lengths = tuple[int, int]
"""The tokens of one example's source and target in a batch, start or end included."""


def token_batches(lengths: Sequence[Lengths], tokens: int, seed: int, epoch: int) -> list[list[int]]:
    """Batches of example indices. Each index occurs once, and rows x (longest side of any row, padded) <= `tokens`.
    Rows are a multiple of `ROW_MULTIPLE`, except in small and last batches.

    Examples are sorted by target length, then source length, and cut greedily, which keeps padding low. Noise from
    (seed, epoch) moves examples among neighbours and shuffles the batches, so epochs differ.

    Raises InputError naming the first example longer than `tokens`."""
    for index, pair in enumerate(lengths):
        if max(pair) > tokens:
            raise InputError(
                f"example {index} has {max(pair)} tokens, more than a batch of {tokens}; raise it or drop this one"
            )
    random = Random(f"{seed}/{epoch}")  # a string seed is hashed with SHA-512, the same in every process
    batches = _cut(_sorted(lengths, random), lengths, tokens)
    random.shuffle(batches)
    return batches


def require_one_batch(lengths: Sequence[Lengths], tokens: int, name: str) -> None:
    """Raises InputError when the examples cannot fill one batch: the sum of their longer sides is below `tokens`."""
    found = sum(max(pair) for pair in lengths)
    if found < tokens:
        raise InputError(
            f"{name}: fewer examples than one batch: needed {tokens} tokens, found {found} in {len(lengths)} examples; "
            f"add data, or lower it, as by --set training.batch_tokens={max([found // 4, *map(max, lengths)])}"
        )


def require_room(lengths: Sequence[Lengths], tokens: int, place: Callable[[int], str], what: str) -> None:
    """Raises InputError for the first example whose longer side exceeds `tokens`, with the example's place."""
    for index, pair in enumerate(lengths):
        if max(pair) > tokens:
            raise InputError(
                f"{place(index)}: {max(pair)} tokens, more than training.batch_tokens, {tokens}; raise it or drop the "
                f"{what}"
            )


def _sorted(lengths: Sequence[Lengths], random: Random) -> list[int]:
    """Indices sorted by target length. Source lengths rise and fall in turn, so that neighbouring groups meet at like
    lengths."""
    keys = []
    for index, (source, target) in enumerate(lengths):
        group = int(
            target + random.random()
        )  # at most one longer, so that examples of one length have new neighbours each epoch
        near = source + random.random()
        keys.append((group, near if group % 2 else -near, index))
    keys.sort()
    return [key[2] for key in keys]


def rounded(length: int, multiple: int) -> int:
    """The length rounded up to a multiple."""
    return -(-length // multiple) * multiple


def _cut(order: list[int], lengths: Sequence[Lengths], tokens: int) -> list[list[int]]:
    sides = [rounded(max(pair), LENGTH_MULTIPLE) for pair in lengths]
    batches: list[list[int]] = []
    batch: list[int] = []
    longest = 0
    for index in order:
        longest = max(longest, sides[index])
        while batch and longest * (len(batch) + 1) > tokens:
            kept = len(batch) // ROW_MULTIPLE * ROW_MULTIPLE or len(batch)
            batches.append(batch[:kept])
            batch = batch[kept:]
            longest = max(sides[other] for other in (*batch, index))
        batch.append(index)
    if batch:
        batches.append(batch)
    return batches


def limit_lengths(
    sequences: Sequence[list[int]], maximum: int, places: Sequence[str], *, truncate: bool = False
) -> tuple[list[list[int]], int]:
    """The sequences with at most `maximum` ids each, and the number of those cut.

    Raises InputError naming the place of the first longer sequence, unless `truncate` is set."""
    cut = 0
    limited = []
    for ids, place in zip(sequences, places, strict=True):
        if len(ids) > maximum:
            if not truncate:
                raise InputError(
                    f"{place}: {len(ids)} tokens, more than the model's maximum of {maximum}; shorten it, or train "
                    "with --set truncate=true, which cuts such texts, or with larger model.max_source and max_target"
                )
            cut += 1
        limited.append(ids[:maximum])
    return limited, cut


B = TypeVar("B", bound="Batch")


class Batch:
    """A frozen dataclass of tensors and numbers, without a `repr` of its own."""

    def __repr__(self) -> str:
        parts = (f"{name}={_shown(part)}" for name, part in vars(self).items() if part is not None)
        return f"{type(self).__name__}({', '.join(parts)})"

    def to(self: B, device: torch.device | str) -> B:
        """The same batch on `device`."""
        parts = vars(self).items()
        moved = {name: part.to(device, non_blocking=True) for name, part in parts if isinstance(part, Tensor)}
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
    return torch.tensor(whole, dtype=torch.int64).reshape(len(rows), longest), torch.tensor(lengths, dtype=torch.int64)


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
    sources, lengths = padded([[*ids, source.end] if source_end else ids for ids, _ in examples], multiple)
    target_in, target_lengths = padded([[target.start, *ids] for _, ids in examples], multiple)
    target_out, _ = padded([[*ids, target.end] for _, ids in examples], multiple, IGNORED)
    return PairBatch(sources, lengths, target_in, target_out, target_lengths, sum(len(ids) + 1 for _, ids in examples))
