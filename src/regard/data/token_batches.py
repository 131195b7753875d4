"""Batches of a bounded number of tokens, by the lengths of examples.

Batches are a pure function of lengths, size, seed and epoch, so a resumed run repeats them."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from jaxtyping import Float, Int

from regard.data.batching import LENGTH_MULTIPLE, ROW_MULTIPLE, rounded
from regard.data.order import Order, chunks_of, random_of, rows_of, uniform
from regard.errors import InputError

log = logging.getLogger("regard")
Lengths = tuple[int, int]
"""The tokens of one example's source and target in a batch, start or end included."""
Sides = Int[np.ndarray, "row 2"]
"""The lengths of all examples."""


def token_batches(
    lengths: Sequence[Lengths] | Sides, tokens: int, seed: int, epoch: int
) -> "TokenBatches":
    """Batches of example indices. Each index occurs once, and rows x (longest side of any row, padded) <= `tokens`.
    Rows are a multiple of `ROW_MULTIPLE`, except in small and last batches of a chunk.

    Raises InputError naming the first example longer than `tokens`."""
    sides = as_array(lengths)
    index, longest = first_above(sides, tokens)
    if longest:
        raise InputError(
            f"example {index} has {longest} tokens, more than a batch of {tokens}; raise it or drop this one"
        )
    return TokenBatches(sides, tokens, f"{seed}/{epoch}")


@dataclass(frozen=True, eq=False)
class TokenBatches(Order):
    """Batches of at most `tokens` tokens, of examples with these lengths `(row, side)`.

    The examples of a chunk are sorted by target length, then source length, and cut greedily, which keeps padding low.
    Noise of the generator `name` moves examples among neighbours and shuffles the batches, so epochs differ."""

    lengths: Sides
    tokens: int
    name: str

    @property
    def chunks(self) -> int:
        return chunks_of(len(self.lengths))

    def chunk(self, number: int) -> Sequence[list[int]]:
        random, rows, batches = self._cut(number)
        random.shuffle(batches)
        return [rows[first:last].tolist() for first, last in batches]

    def __len__(self) -> int:
        return sum(len(self._cut(number)[2]) for number in range(self.chunks))

    def _cut(
        self, number: int
    ) -> tuple[Random, Int[np.ndarray, " row"], list[tuple[int, int]]]:
        """The generator of a chunk, its rows in their order, and the first and last row of each batch."""
        random = random_of(len(self.lengths), self.name, number)
        rows = rows_of(len(self.lengths), self.name, number)
        lengths = self.lengths[rows]
        order = _sorted(lengths, uniform(random, *lengths.shape))
        return (
            random,
            rows[order],
            _cut(rounded(longest_sides(lengths[order]), LENGTH_MULTIPLE), self.tokens),
        )


def as_array(lengths: Sequence[Lengths] | Sides) -> Sides:
    """Lengths as integers in memory, two a row."""
    return (
        lengths
        if isinstance(lengths, np.ndarray)
        else np.array(lengths, dtype=np.int32).reshape(-1, 2)
    )


def first_above(lengths: Sides, tokens: int) -> tuple[int, int]:
    """The first example with a side of more than `tokens`, and the length of that side; zeros where none has."""
    longest = longest_sides(lengths)
    index = int(np.argmax(longest > tokens)) if len(longest) else 0
    return (
        (index, int(longest[index]))
        if len(longest) and longest[index] > tokens
        else (0, 0)
    )


def longest_sides(lengths: Sides) -> Int[np.ndarray, " row"]:
    """The longer side of each example; NumPy's maximum along rows of two takes twice as long."""
    return np.maximum(lengths[:, 0], lengths[:, 1])


def batch_size(lengths: Sequence[Lengths] | Sides, tokens: int, name: str) -> int:
    """The largest padded size of a batch: `tokens`, or a quarter of the examples where all of them together are fewer
    than one such batch, which a line of the log says. Raises InputError for no examples at all."""
    longest = longest_sides(as_array(lengths))
    found = int(longest.sum(dtype=np.int64))
    if not found:
        raise InputError(f"{name}: there are none; add data")
    if found >= tokens:
        return tokens
    return lowered(
        tokens,
        max(found // 4, int(longest.max())),
        f"{len(longest):,} {name} are fewer than one batch",
    )


def batch_rows(
    parts: int, size: int, tokens: int, reason: str, processes: int = 1
) -> int:
    """The parts of `size` tokens in a batch of at most `tokens`, or a quarter of all parts where they are fewer than
    one such batch of each process, which a line of the log says with the reason."""
    rows = tokens // size
    if parts >= rows * processes or not parts:
        return rows
    return lowered(tokens, max(1, parts // (4 * processes)) * size, reason) // size


def lowered(tokens: int, fewer: int, reason: str) -> int:
    """`fewer` in place of the `tokens` of a batch, with a line for the log."""
    log.info(
        "training.batch_tokens is lowered from %d to %d, since %s",
        tokens,
        fewer,
        reason,
    )
    return fewer


def require_room(
    lengths: Sequence[Lengths] | Sides,
    tokens: int,
    place: Callable[[int], str],
    what: str,
) -> None:
    """Raises InputError for the first example whose longer side exceeds `tokens`, with the example's place."""
    index, longest = first_above(as_array(lengths), tokens)
    if longest:
        raise InputError(
            f"{place(index)}: {longest} tokens, more than training.batch_tokens, {tokens}; raise it or drop the {what}"
        )


def _sorted(
    lengths: Sides, noise: Float[np.ndarray, "row side"]
) -> Int[np.ndarray, " row"]:
    """Rows sorted by target length. Source lengths rise and fall in turn, so that neighbouring groups meet at like
    lengths."""
    # at most one longer, so that examples of one length have new neighbours each epoch
    group = (lengths[:, 1] + noise[:, 0]).astype(np.int64)
    near = lengths[:, 0] + noise[:, 1]
    return np.lexsort((np.where(group % 2, near, -near), group))


def _cut(sides: Int[np.ndarray, " row"], tokens: int) -> list[tuple[int, int]]:
    """The first row of each batch, and the one behind its last, of rows with these padded sides."""
    batches, first = [], 0
    while first < len(sides):
        most = (
            tokens // max(1, int(sides[first])) + 1
        )  # the longest side is at least the first row's
        longest = np.maximum.accumulate(sides[first : first + most])
        full = longest * np.arange(1, len(longest) + 1) > tokens
        count = max(1, int(full.argmax())) if full.any() else len(longest)
        if first + count < len(sides):
            count = count // ROW_MULTIPLE * ROW_MULTIPLE or count
        batches.append((first, first + count))
        first += count
    return batches
