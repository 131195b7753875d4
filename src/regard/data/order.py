"""The order of an epoch: its batches of example indices, a chunk of examples at a time.

A set of up to `CHUNK` examples is one chunk. The blocks of a larger one, `BLOCK`
neighbours each, are permuted by seed and epoch, and a chunk has as many blocks as fit. So
an order takes the memory of a chunk, whatever the size of the set, and any chunk is
computed without those before it.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Generic, TypeVar, overload

import numpy as np
from jaxtyping import Float, Int

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


class Order(LazySequence[list[int]]):
    """The batches of an epoch as lists of example indices, a pure function of fields."""

    @property
    @abstractmethod
    def chunks(self) -> int:
        """The number of chunks."""

    @abstractmethod
    def chunk(self, number: int) -> Sequence[list[int]]:
        """Return the batches of a chunk, in the order of training."""

    def walk(
        self, start: int = 0, mark: OrderPosition = START
    ) -> Iterator[tuple[OrderPosition, list[int]]]:
        """Yield the batches from number `start` on, with the position of their chunk.

        A mark at or before `start` spares the chunks before it.
        """
        before = mark.before
        for number in range(mark.chunk, self.chunks):
            batches = self.chunk(number)
            for index in range(max(0, start - before), len(batches)):
                yield OrderPosition(number, before), batches[index]
            before += len(batches)

    def __len__(self) -> int:
        return sum(len(self.chunk(number)) for number in range(self.chunks))

    def __iter__(self) -> Iterator[list[int]]:
        return (batch for _, batch in self.walk())

    def item(self, index: int) -> list[int]:
        """Return a batch."""
        return next(batch for _, batch in self.walk(index))


@dataclass(frozen=True)
class ListOrder(Order):
    """Batches in memory."""

    batches: Sequence[list[int]]

    @property
    def chunks(self) -> int:
        """The number of chunks."""
        return 1

    def chunk(self, number: int) -> Sequence[list[int]]:
        """Return the batches."""
        return self.batches


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

    def chunk(self, number: int) -> Sequence[list[int]]:
        """Return the batches of a chunk."""
        examples = rows_of(self.total, self.name, number).tolist()
        random_of(self.total, self.name, number).shuffle(examples)
        firsts = range(0, len(examples), self.size)
        return [examples[first : first + self.size] for first in firsts]


@dataclass(frozen=True)
class Consecutive(Order):
    """`total` batches of `size` examples each, in their own order."""

    total: int
    size: int

    @property
    def chunks(self) -> int:
        """The number of chunks."""
        return -(-self.total // max(1, CHUNK // self.size))

    def chunk(self, number: int) -> Sequence[list[int]]:
        """Return the batches of a chunk."""
        count = max(1, CHUNK // self.size)
        batches = range(number * count, min(self.total, (number + 1) * count))
        firsts = (batch * self.size for batch in batches)
        return [list(range(first, first + self.size)) for first in firsts]


def as_order(batches: Order | Sequence[list[int]]) -> Order:
    """Return the batches as an order."""
    return batches if isinstance(batches, Order) else ListOrder(batches)


def chunks_of(count: int) -> int:
    """Return the number of chunks of so many examples."""
    return -(-count // CHUNK)


def rows_of(count: int, name: str, number: int) -> RowIndices:
    """Return the examples of a chunk, those of a block in their own order."""
    if chunks_of(count) <= 1:
        return np.arange(count)
    blocks = numpy_random(Random(f"{name}/blocks")).permutation(-(-count // BLOCK))
    first = number * (CHUNK // BLOCK)
    chosen = blocks[first : first + CHUNK // BLOCK]
    rows = (chosen[:, None] * BLOCK + np.arange(BLOCK)).ravel()
    return rows[rows < count]


def random_of(count: int, name: str, number: int) -> Random:
    """Return the generator of a chunk.

    A string seed is hashed with SHA-512, the same in every process.
    """
    return Random(name if chunks_of(count) <= 1 else f"{name}/{number}")


def numpy_random(random: Random) -> np.random.RandomState:
    """Return a generator of NumPy in the same state, with the numbers of Python's."""
    _, state, _ = random.getstate()
    keys = np.array(state[:-1], dtype=np.uint32)
    generator = np.random.RandomState(0)
    generator.set_state(("MT19937", keys, state[-1], 0, 0.0))
    return generator


def uniform(random: Random, rows: int, columns: int) -> Float[np.ndarray, "row column"]:
    """Return the next numbers of `random.random()`, row by row."""
    numbers = (random.random() for _ in range(rows * columns))
    return np.fromiter(numbers, np.float64, rows * columns).reshape(rows, columns)
