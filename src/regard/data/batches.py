"""Padded batches of tokens, bounded by their number of tokens."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from random import Random
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.data.order import Order, chunks_of, random_of, rows_of, uniform
from regard.errors import InputError
from regard.text import Tokenizer
from regard.text.special import IGNORED, SPECIAL, SpecialTokens
from regard.text.words import TEXT_BEGINS, TEXT_ENDS, spell, spell_mark

LENGTH_MULTIPLE, ROW_MULTIPLE = 4, 8
"""Training batches are padded to a multiple of so many tokens and cut to a multiple of so many rows. Shapes then recur,
so oneDNN compiles fewer of them; compilation took a third of a training step before (docs/log.md)."""

N = TypeVar("N", int, np.ndarray)


def round_up_to(length: N, multiple: int) -> N:
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


def pad_rows(
    rows: Sequence[Sequence[int]], multiple: int = 1, fill: int = 0
) -> tuple[Int[Tensor, "batch position"], Int[Tensor, " batch"]]:
    """Ids as one tensor, padded with `fill` to a multiple of `multiple`, and the length of each row. Models use the
    lengths, so `fill` may be any id."""
    lengths = [len(row) for row in rows]
    longest = round_up_to(max(lengths, default=0), multiple)
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
    sources, lengths = pad_rows(
        [[*ids, source.end] if source_end else ids for ids, _ in examples], multiple
    )
    target_in, target_lengths = pad_rows(
        [[target.start, *ids] for _, ids in examples], multiple
    )
    target_out, _ = pad_rows(
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
        order = _sort_rows(lengths, uniform(random, *lengths.shape))
        return (
            random,
            rows[order],
            _cut(
                round_up_to(longest_sides(lengths[order]), LENGTH_MULTIPLE), self.tokens
            ),
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
    return lower_batch(
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
    return lower_batch(tokens, max(1, parts // (4 * processes)) * size, reason) // size


def lower_batch(tokens: int, fewer: int, reason: str) -> int:
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


def _sort_rows(
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


Ids = list[int]


def bert_input(
    special: SpecialTokens, first: Sequence[int], second: Sequence[int] | None = None
) -> tuple[Ids, Ids]:
    """Return the tokens of one text or two in a row, and the segment of each token.

    A row is [start] A [end] or [start] A [end] B [end], as far as the vocabulary has
    these tokens. Segments are 0, and from B on 1.
    """
    start = [special.start] * special.opens
    end = [special.end] * special.closes
    if second is None:
        ids = [*start, *first, *end]
        return ids, [0] * len(ids)
    beginning = [*start, *first, *[special.end] * special.between]
    rest = [*second, *end]
    return [*beginning, *rest], [0] * len(beginning) + [1] * len(rest)


def count_special(special: SpecialTokens, texts: int) -> int:
    """Return the number of special tokens in a row of one text or two."""
    around = special.opens + special.closes
    return around if texts == 1 else around + special.between


def bert_inputs(
    special: SpecialTokens, texts: Sequence[Sequence[Ids]]
) -> tuple[
    Int[Tensor, "batch position"], Int[Tensor, " batch"], Int[Tensor, "batch position"]
]:
    """One text or two a row: tokens, padded on the right, how many each row has, and their segments."""
    rows = [bert_input(special, *text) for text in texts]
    tokens, lengths = pad_rows([ids for ids, _ in rows])
    segments, _ = pad_rows([parts for _, parts in rows])
    return tokens, lengths, segments


Spelling = Sequence[int]
Part = Sequence[tuple[Spelling, int]]
"""The characters and the id of each word."""


@dataclass(frozen=True, repr=False)
class SpelledBatch(Batch):
    """Parts of texts padded on the right: characters `(batch, position, character)`, ids padded with `IGNORED`, and the
    number of words of each part. `fresh` batches start from an empty state; others may continue the batch before."""

    characters: Int[Tensor, "batch position character"]
    tokens: Int[Tensor, "batch position"]
    lengths: Int[Tensor, " batch"]
    fresh: bool = True


class SpelledTexts:
    """Texts with start and end marks, cut into parts of at most `window` words plus one that also begins the next part.
    Each word is predicted once from the words before it and once from those after it.

    Raises:
        InputError: there is no text.
    """

    def __init__(
        self, tokenizer: Tokenizer, texts: Sequence[str], characters: int, window: int
    ):
        spelling = lru_cache(maxsize=None)(
            lambda word: spell(word, characters)
        )  # equal words share one
        begins, ends = (
            (spell_mark(mark, characters), index)
            for mark, index in mark_spellings(tokenizer.special)
        )
        self.characters = characters
        self.parts: list[Part] = []
        for text in texts:
            words = zip(
                map(spelling, words_of(tokenizer, text)),
                tokenizer.encode(text),
                strict=True,
            )
            whole = [begins, *words, ends]
            self.parts += [
                whole[first : first + window + 1]
                for first in range(0, len(whole) - 1, window)
            ]
        if not self.parts:
            raise InputError("there is no text; expected at least one line")

    @property
    def lengths(self) -> list[int]:
        """The number of words of each part, the marks and the shared word included."""
        return list(map(len, self.parts))

    def batch(self, examples: Sequence[int]) -> SpelledBatch:
        """A batch of the parts with these indices."""
        parts = [self.parts[example] for example in examples]
        tokens, lengths = pad_rows(
            [[index for _, index in part] for part in parts], fill=IGNORED
        )
        spelled = stack_words(
            [[spelling for spelling, _ in part] for part in parts], self.characters
        )
        return SpelledBatch(spelled, tokens, lengths)


def mark_spellings(special: SpecialTokens) -> tuple[tuple[int, int], tuple[int, int]]:
    """The characters that spell the start and the end of a text, each with its id in the vocabulary."""
    return (TEXT_BEGINS, special.start), (TEXT_ENDS, special.end)


def words_of(tokenizer: Tokenizer, text: str) -> list[str]:
    """The written words of a text, one for each id."""
    return [text[first:last].strip() for first, last in tokenizer.offsets(text)]


def stack_words(
    rows: Sequence[Sequence[Spelling]], characters: int
) -> Int[Tensor, "batch position character"]:
    """Rows of words, each of `characters` characters, as one tensor padded with zeros."""
    longest = max(map(len, rows))
    whole = [[*row, *[[0] * characters] * (longest - len(row))] for row in rows]
    return torch.tensor(whole, dtype=torch.int64).reshape(
        len(rows), longest, characters
    )


def spell_vocabulary(
    tokenizer: Tokenizer, characters: int
) -> Int[Tensor, "word character"]:
    """The characters of each word of a vocabulary, zeros for padding."""
    rows = [
        spell(tokenizer.decode([index]), characters) for index in range(tokenizer.size)
    ]
    rows[tokenizer.special.pad] = [0] * characters
    for mark, index in mark_spellings(tokenizer.special):
        rows[index] = spell_mark(mark, characters)
    return torch.tensor(rows)
