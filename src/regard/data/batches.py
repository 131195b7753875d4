"""The order of an epoch, and its padded batches of tokens.

A set of up to `CHUNK` examples is one chunk. The blocks of a larger one, `BLOCK`
neighbours each, are permuted by seed and epoch, and a chunk has as many blocks as fit. So
an order takes the memory of a chunk, whatever the size of the set, and any chunk is
computed without those before it.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from random import Random
from typing import Any, Generic, TypeVar, overload

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.utils._pytree import tree_map

from regard.errors import InputError
from regard.text import Tokenizer
from regard.text.kinds import IGNORED, SPECIAL, SpecialTokens
from regard.text.words import TEXT_BEGINS, TEXT_ENDS, spell, spell_mark

CHUNK, BLOCK = 1 << 17, 1 << 10
"""The examples of a chunk, and those that stay neighbours from epoch to epoch."""
RowIndices = Int[np.ndarray, " row"]
E = TypeVar("E")


class LazySequence(Sequence[E], ABC, Generic[E]):
    """A sequence that computes each item by `item`; a slice is a list."""

    @abstractmethod
    def item(self, index: int) -> E:
        """Return the item at an index of 0 or more that is below the length."""

    def __iter__(self) -> Iterator[E]:
        return map(self.item, range(len(self)))

    @overload
    def __getitem__(self, index: int) -> E: ...
    @overload
    def __getitem__(self, index: slice) -> list[E]: ...
    def __getitem__(self, index: int | slice) -> E | list[E]:
        indices = range(len(self))[index]
        if isinstance(indices, int):
            return self.item(indices)
        return list(map(self.item, indices))


@dataclass(frozen=True)
class OrderPosition:
    """A chunk of an order, and the number of batches before it."""

    chunk: int = 0
    before: int = 0


START = OrderPosition()


Ids = list[int]
"""Token ids, or the indices of a batch's examples."""


class Order(LazySequence[Ids]):
    """The batches of an epoch as lists of example indices, a pure function of fields."""

    @property
    @abstractmethod
    def chunks(self) -> int:
        """The number of chunks."""

    @abstractmethod
    def chunk(self, number: int) -> Sequence[Ids]:
        """Return the batches of a chunk, in the order of training."""

    def walk(
        self, start: int = 0, mark: OrderPosition = START
    ) -> Iterator[tuple[OrderPosition, Ids]]:
        """Yield the batches from number `start` on, with the position of their chunk.

        A mark at or before `start` spares the chunks before it.
        """
        before = mark.before
        for number in range(mark.chunk, self.chunks):
            batches = self.chunk(number)
            position = OrderPosition(number, before)
            first = max(0, start - before)
            for batch in batches[first:]:
                yield position, batch
            before += len(batches)

    def __len__(self) -> int:
        return sum(len(self.chunk(number)) for number in range(self.chunks))

    def __iter__(self) -> Iterator[Ids]:
        return (batch for _, batch in self.walk())

    def item(self, index: int) -> Ids:
        """Return a batch."""
        return next(batch for _, batch in self.walk(index))


@dataclass(frozen=True)
class Shuffled(Order):
    """Examples in random order.

    Attributes:
        total: The number of examples.
        size: The examples of a batch.
        name: The seed of the epoch's random numbers.
    """

    total: int
    size: int
    name: str

    @property
    def chunks(self) -> int:
        """The number of chunks."""
        return chunks_of(self.total)

    def chunk(self, number: int) -> Sequence[Ids]:
        """Return the batches of a chunk."""
        total, size, name = self.total, self.size, self.name
        examples = rows_of(total, name, number).tolist()
        random = random_of(total, name, number)
        random.shuffle(examples)
        firsts = range(0, len(examples), size)
        return [examples[first : first + size] for first in firsts]


@dataclass(frozen=True)
class Consecutive(Order):
    """`total` batches of `size` examples each, in their own order."""

    total: int
    size: int

    @property
    def chunks(self) -> int:
        """The number of chunks."""
        return -(-self.total // self.chunk_batches)

    @property
    def chunk_batches(self) -> int:
        """The number of batches of a full chunk."""
        return max(1, CHUNK // self.size)

    def chunk(self, number: int) -> Sequence[Ids]:
        """Return the batches of a chunk."""
        count = self.chunk_batches
        size = self.size
        first = number * count
        last = min(self.total, first + count)
        firsts = range(first * size, last * size, size)
        return [list(range(start, start + size)) for start in firsts]


def chunks_of(count: int) -> int:
    """Return the number of chunks of so many examples."""
    return -(-count // CHUNK)


def rows_of(count: int, name: str, number: int) -> RowIndices:
    """Return the examples of a chunk, those of a block in their own order."""
    if chunks_of(count) <= 1:
        return np.arange(count)
    random = numpy_random(Random(f"{name}/blocks"))
    blocks = random.permutation(-(-count // BLOCK))
    size = CHUNK // BLOCK
    first = number * size
    chosen = blocks[first : first + size]
    firsts = chosen * BLOCK
    rows = np.add.outer(firsts, np.arange(BLOCK)).ravel()
    return rows[rows < count]


def random_of(count: int, name: str, number: int) -> Random:
    """Return the generator of a chunk.

    A string seed is hashed with SHA-512, the same in every process.
    """
    if chunks_of(count) > 1:
        name = f"{name}/{number}"
    return Random(name)


def numpy_random(random: Random) -> np.random.RandomState:
    """Return a generator of NumPy in the same state, with the numbers of Python's."""
    _, state, _ = random.getstate()
    *keys, place = state
    generator = np.random.RandomState(0)
    words = np.array(keys, dtype=np.uint32)
    generator.set_state(("MT19937", words, place, 0, 0.0))
    return generator


def uniform(random: Random, rows: int, columns: int) -> Float[np.ndarray, "row column"]:
    """Return the next numbers of `random.random()`, row by row."""
    count = rows * columns
    numbers = (random.random() for _ in range(count))
    row = np.fromiter(numbers, np.float64, count)
    return row.reshape(rows, columns)


log = logging.getLogger("regard")

LENGTH_MULTIPLE, ROW_MULTIPLE = 4, 8
"""The multiples that the length of batches is padded to and their rows are cut to.

Shapes then recur, so oneDNN compiles fewer of them; compilation took a third of a
training step before (docs/log.md).
"""
N = TypeVar("N", int, np.ndarray)
B = TypeVar("B", bound="Batch")
Padded = Int[Tensor, "batch position"]
Counts = Int[Tensor, " batch"]
Lengths = tuple[int, int]
"""The tokens of one example's source and target in a batch, start or end included."""
Sides = Int[np.ndarray, "row 2"]
"""The lengths of all examples."""
SidesOrPairs = Sequence[Lengths] | Sides


def round_up_to(length: N, multiple: int) -> N:
    """Return the length, or each of an array, rounded up to a multiple."""
    return -(-length // multiple) * multiple


class Batch:
    """A frozen dataclass of tensors and numbers."""

    def __repr__(self) -> str:
        parts = []
        for name, part in vars(self).items():
            if isinstance(part, Tensor):
                kind = str(part.dtype).removeprefix("torch.")
                shape = list(part.shape)
                part = f"{kind}{shape}"
            if part is not None:
                parts.append(f"{name}={part!s:.40}")
        return f"{type(self).__name__}({', '.join(parts)})"

    def to(self: B, device: torch.device | str) -> B:
        """Return the same batch on a device."""
        parts: Any = {name: move(part, device) for name, part in vars(self).items()}
        batch: Any = replace(self, **parts)  # pyright: ignore[reportArgumentType]
        return batch


def move(value: Any, device: torch.device | str) -> Any:
    """Return a value with all tensors in its tuples, lists, mappings and batches on a device."""

    def move_part(part: Any) -> Any:
        if isinstance(part, Tensor):
            return part.to(device, non_blocking=True)
        if isinstance(part, Batch):
            return part.to(device)
        return part

    if isinstance(value, Mapping):
        value = dict(value)
    return tree_map(move_part, value)


def pad_rows(
    rows: Sequence[Sequence[int]], multiple: int = 1, fill: int = 0
) -> tuple[Padded, Counts]:
    """Pad ids to one tensor.

    Args:
        rows: The ids of each row.
        multiple: The padded length is a multiple of it.
        fill: The id of padding; models use the lengths, so it may be any.

    Returns:
        The tensor, and the length of each row.
    """
    counts = [len(row) for row in rows]
    longest = round_up_to(max(counts, default=0), multiple)
    padded = []
    for row, count in zip(rows, counts, strict=True):
        padding = [fill] * (longest - count)
        padded.append([*row, *padding])
    ids = torch.tensor(padded, dtype=torch.int64)
    lengths = torch.tensor(counts, dtype=torch.int64)
    return ids.reshape(len(rows), longest), lengths


@dataclass(frozen=True, repr=False)
class PairBatch(Batch):
    """Ids (int64), padded on the right.

    Attributes:
        source: The ids that the encoder reads.
        source_lengths: How many there are.
        target_in: The ids that the decoder reads.
        target_out: The ids that it predicts, padded with `IGNORED`.
        target_lengths: The positions of either, with start or end.
        target_tokens: Their sum as a number, because reading it from an accelerator
            would wait for the device.
        links: The reference alignment of each target position, the end included: rows
            sum to 1, or to 0 without a reference.
    """

    source: Int[Tensor, "batch source"]
    source_lengths: Counts
    target_in: Int[Tensor, "batch target"]
    target_out: Int[Tensor, "batch target"]
    target_lengths: Counts
    target_tokens: int
    links: Float[Tensor, "batch target source"] | None = None


def collate(
    examples: Sequence[tuple[Ids, Ids]],
    source: SpecialTokens = SPECIAL,
    target: SpecialTokens = SPECIAL,
    *,
    source_end: bool = True,
    multiple: int = 1,
) -> PairBatch:
    """Pad (source ids, target ids) pairs. Each target gets a start and an end.

    Args:
        examples: The pairs.
        source: The special ids of sources.
        target: The special ids of targets.
        source_end: Whether each source gets an end.
        multiple: Both sides are padded to a multiple of it.

    Raises:
        ValueError: There are no examples.
    """
    if not examples:
        raise ValueError("collate() got no examples; expected at least one")
    source_ids = [ids for ids, _ in examples]
    if source_end:
        source_ids = [[*ids, source.end] for ids in source_ids]
    sources, lengths = pad_rows(source_ids, multiple)
    target_ids = [ids for _, ids in examples]
    before = [[target.start, *ids] for ids in target_ids]
    after = [[*ids, target.end] for ids in target_ids]
    target_in, target_lengths = pad_rows(before, multiple)
    target_out, _ = pad_rows(after, multiple, IGNORED)
    count = sum(map(len, before))
    return PairBatch(
        sources,
        lengths,
        target_in,
        target_out,
        target_lengths,
        count,
    )


def token_batches(
    lengths: SidesOrPairs, tokens: int, seed: int, epoch: int
) -> "TokenBatches":
    """Return batches of example indices, each of which occurs once.

    Rows x (longest side of any row, padded) <= `tokens`. Rows are a multiple of
    `ROW_MULTIPLE`, except in small and last batches of a chunk.

    Raises:
        InputError: An example is longer than `tokens`.
    """
    sides = as_array(lengths)
    require_room(sides, tokens, lambda index: f"example {index}", "example")
    return TokenBatches(sides, tokens, f"{seed}/{epoch}")


@dataclass(frozen=True, eq=False)
class TokenBatches(Order):
    """Batches of at most `tokens` tokens, of examples with these lengths.

    The examples of a chunk are sorted by target length, then source length, and cut
    greedily, which keeps padding low. Noise of the generator `name` moves examples among
    neighbours and shuffles the batches, so epochs differ.
    """

    lengths: Sides
    tokens: int
    name: str

    @property
    def chunks(self) -> int:
        """The number of chunks."""
        return chunks_of(len(self.lengths))

    def chunk(self, number: int) -> Sequence[Ids]:
        """Return the batches of a chunk."""
        count = len(self.lengths)
        name = self.name
        random = random_of(count, name, number)
        rows = rows_of(count, name, number)
        lengths = self.lengths[rows]
        # Noise adds at most one, so that examples of one length have new neighbours each
        # epoch. Source lengths rise and fall in turn, so that neighbouring groups meet
        # at like lengths.
        noise = uniform(random, *lengths.shape).T
        source, target = lengths.T
        group = (target + noise[0]).astype(np.int64)
        source = source + noise[1]
        signed = np.where(group % 2, source, -source)
        order = np.lexsort((signed, group))
        rows = rows[order]
        longest = longest_sides(lengths[order])
        padded = round_up_to(longest, LENGTH_MULTIPLE)
        batches = _cut_greedily(padded, self.tokens)
        random.shuffle(batches)
        return [rows[first:last].tolist() for first, last in batches]


def _cut_greedily(sides: RowIndices, tokens: int) -> list[tuple[int, int]]:
    """Return the first row of each batch, and the one behind its last."""
    batches = []
    first = 0
    while first < len(sides):
        # The longest side is at least the first row's.
        side = max(1, int(sides[first]))
        limit = tokens // side + 1
        longest = np.maximum.accumulate(sides[first : first + limit])
        counts = np.arange(1, len(longest) + 1)
        fits = longest * counts <= tokens
        count = max(1, int(fits.sum()))
        if first + count < len(sides):
            count = count // ROW_MULTIPLE * ROW_MULTIPLE or count
        last = first + count
        batches.append((first, last))
        first = last
    return batches


def as_array(lengths: SidesOrPairs) -> Sides:
    """Return lengths as integers in memory, two a row."""
    if isinstance(lengths, np.ndarray):
        return lengths
    pairs = np.array(lengths, dtype=np.int32)
    return pairs.reshape(-1, 2)


def longest_sides(lengths: Sides) -> RowIndices:
    """Return the longer side of each example.

    NumPy's maximum along rows of two takes twice as long.
    """
    first, second = lengths.T
    return np.maximum(first, second)


def batch_size(lengths: SidesOrPairs, tokens: int, name: str) -> int:
    """Return the largest padded size of a batch.

    It is `tokens`, or a quarter of the examples where all of them together are fewer
    than one such batch.

    Raises:
        InputError: There are no examples.
    """
    longest = longest_sides(as_array(lengths))
    total = int(longest.sum(dtype=np.int64))
    if not total:
        raise InputError(f"{name}: there are none; add data")
    if total >= tokens:
        return tokens
    reason = f"{len(longest):,} {name} are fewer than one batch"
    fewer = max(total // 4, int(longest.max()))
    return _lower_batch(tokens, fewer, reason)


def batch_rows(parts: int, size: int, tokens: int, reason: str) -> int:
    """Return how many parts of `size` tokens are in a batch of at most `tokens`.

    Where all parts are fewer than one such batch, it is a quarter of them, which a line
    of the log says with the reason.
    """
    rows = tokens // size
    if parts >= rows or not parts:
        return rows
    fewer = max(1, parts // 4)
    return _lower_batch(tokens, fewer * size, reason) // size


def _lower_batch(tokens: int, fewer: int, reason: str) -> int:
    log.info(
        "training.batch_tokens is lowered from %d to %d, since %s",
        tokens,
        fewer,
        reason,
    )
    return fewer


def require_room(
    lengths: SidesOrPairs,
    tokens: int,
    place: Callable[[int], str],
    noun: str,
) -> None:
    """Raise InputError for the first example whose longer side exceeds `tokens`."""
    longest = longest_sides(as_array(lengths))
    too_long = np.flatnonzero(longest > tokens)
    for index in too_long[:1].tolist():
        raise InputError(
            f"{place(index)}: {longest[index]} tokens, more than training.batch_tokens, "
            f"{tokens}; raise it or drop the {noun}"
        )


def bert_input(
    special: SpecialTokens, first: Sequence[int], second: Sequence[int] | None = None
) -> tuple[Ids, Ids]:
    """Return the tokens of one text or two in a row, and the segment of each token.

    A row is [start] A [end] or [start] A [end] B [end], as far as the vocabulary has
    these tokens. Segments are 0, and from B on 1.
    """
    end = [special.end]
    beginning = [special.start] * special.opens
    beginning += first
    ending = end * special.closes
    segment = 0
    if second is not None:
        beginning += end * special.between
        ending = [*second, *ending]
        segment = 1
    segments = [0] * len(beginning)
    segments += [segment] * len(ending)
    return beginning + ending, segments


def count_special(special: SpecialTokens, texts: int) -> int:
    """Return the number of special tokens in a row of one text or two."""
    between = special.between * (texts - 1)
    return special.opens + between + special.closes


def bert_inputs(
    special: SpecialTokens, texts: Sequence[Sequence[Ids]]
) -> tuple[Padded, Counts, Padded]:
    """Pad one text or two a row: return tokens, how many each row has, and segments."""
    rows = [bert_input(special, *text) for text in texts]
    tokens, lengths = pad_rows([ids for ids, _ in rows])
    segments, _ = pad_rows([parts for _, parts in rows])
    return tokens, lengths, segments


Spelling = Sequence[int]
Part = Sequence[tuple[Spelling, int]]
"""The characters and the id of each word."""
Characters = Int[Tensor, "batch position character"]
"""The characters of each word of parts of texts, padded with zeros."""


@dataclass(frozen=True, repr=False)
class SpelledBatch(Batch):
    """Parts of texts padded on the right.

    Attributes:
        characters: The characters of each word.
        tokens: The ids, padded with `IGNORED`.
        lengths: The number of words of each part.
    """

    characters: Characters
    tokens: Padded
    lengths: Counts


class SpelledTexts:
    """Texts with start and end marks, cut into parts of words.

    A part has at most `window` words plus one that also begins the next part. Each word
    is predicted once from the words before it and once from those after it.

    Raises:
        InputError: There is no text.
    """

    def __init__(
        self, tokenizer: Tokenizer, texts: Sequence[str], characters: int, window: int
    ) -> None:
        spell_word = lru_cache(maxsize=None)(lambda word: spell(word, characters))
        self.characters = characters
        self.parts: list[Part] = []
        for text in texts:
            spellings = map(spell_word, words_of(tokenizer, text))
            words = [
                (spell_mark(TEXT_BEGINS, characters), tokenizer.special.start),
                *zip(spellings, tokenizer.encode(text), strict=True),
                (spell_mark(TEXT_ENDS, characters), tokenizer.special.end),
            ]
            firsts = range(0, len(words) - 1, window)
            self.parts += [words[first : first + window + 1] for first in firsts]
        if not self.parts:
            raise InputError("there is no text; expected at least one line")

    def batches(self, tokens: int, seed: int, epoch: int) -> TokenBatches:
        """Return an epoch's batches of at most `tokens` words, marks included."""
        counts = [len(part) for part in self.parts]
        lengths = [(count, count) for count in counts]
        return token_batches(lengths, tokens, seed, epoch)

    def batch(self, epoch: int, examples: Sequence[int]) -> SpelledBatch:
        """Return a batch of the parts with these indices, the same in every epoch."""
        parts = [self.parts[example] for example in examples]
        ids = [[index for _, index in part] for part in parts]
        words = [[spelling for spelling, _ in part] for part in parts]
        characters = stack_words(words, self.characters)
        tokens, lengths = pad_rows(ids, fill=IGNORED)
        return SpelledBatch(characters, tokens, lengths)


def words_of(tokenizer: Tokenizer, text: str) -> list[str]:
    """Return the written words of a text, one for each id."""
    return [text[first:last].strip() for first, last in tokenizer.offsets(text)]


def stack_words(rows: Sequence[Sequence[Spelling]], characters: int) -> Characters:
    """Stack rows of words of so many characters, padded with zeros."""
    longest = max(map(len, rows))
    stacked = torch.zeros(len(rows), longest, characters, dtype=torch.int64)
    for row, words in enumerate(rows):
        spelled = torch.tensor(words).reshape(-1, characters)
        stacked[row, : len(words)] = spelled
    return stacked


def spell_vocabulary(
    tokenizer: Tokenizer, characters: int
) -> Int[Tensor, "word character"]:
    """Return the characters of each word of a vocabulary, zeros for padding."""
    words = [tokenizer.decode([index]) for index in range(tokenizer.size)]
    rows = [spell(word, characters) for word in words]
    special = tokenizer.special
    rows[special.pad] = [0] * characters
    rows[special.start] = spell_mark(TEXT_BEGINS, characters)
    rows[special.end] = spell_mark(TEXT_ENDS, characters)
    return torch.tensor(rows)
