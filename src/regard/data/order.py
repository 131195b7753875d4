"""The order of an epoch: its batches of example indices, a chunk of examples at a time.

A set of up to `CHUNK` examples is one chunk. The blocks of a larger one, `BLOCK` neighbours each, are permuted by seed
and epoch, and a chunk has as many blocks as fit. So an order takes the memory of a chunk, whatever the size of the set,
and any chunk is computed without those before it.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import overload

import numpy as np
from jaxtyping import Float, Int

CHUNK, BLOCK = 1 << 17, 1 << 10
"""The examples of a chunk, and those that stay neighbours from epoch to epoch."""


@dataclass(frozen=True)
class OrderPosition:
    """A chunk of an order, and the number of batches before it."""

    chunk: int = 0
    before: int = 0


START = OrderPosition()


class Order(Sequence[list[int]], ABC):
    """The batches of an epoch as lists of example indices, a pure function of its fields."""

    @property
    @abstractmethod
    def chunks(self) -> int:
        """The number of chunks."""

    @abstractmethod
    def chunk(self, number: int) -> Sequence[list[int]]:
        """The batches of a chunk, in the order of training."""

    def walk(
        self, start: int = 0, mark: OrderPosition = START
    ) -> Iterator[tuple[OrderPosition, list[int]]]:
        """The batches from number `start` on, each with the mark of its chunk. A mark at or before `start` spares the
        chunks before it."""
        before = mark.before
        for number in range(mark.chunk, self.chunks):
            batches = self.chunk(number)
            for place in range(max(0, start - before), len(batches)):
                yield OrderPosition(number, before), batches[place]
            before += len(batches)

    def __len__(self) -> int:
        return sum(len(self.chunk(number)) for number in range(self.chunks))

    def __iter__(self) -> Iterator[list[int]]:
        return (batch for _, batch in self.walk())

    @overload
    def __getitem__(self, index: int) -> list[int]: ...
    @overload
    def __getitem__(self, index: slice) -> list[list[int]]: ...
    def __getitem__(self, index: int | slice) -> list[int] | list[list[int]]:
        if isinstance(index, slice) or index < 0:
            return list(self)[index]
        for _, batch in self.walk(index):
            return batch
        raise IndexError(f"batch {index}: the order has {len(self)}")


@dataclass(frozen=True)
class ListOrder(Order):
    """Batches in memory."""

    batches: Sequence[list[int]]

    @property
    def chunks(self) -> int:
        return 1

    def chunk(self, number: int) -> Sequence[list[int]]:
        return self.batches


@dataclass(frozen=True)
class Shuffled(Order):
    """`total` examples in random order, `size` in a batch. `name` is the seed of the epoch's random numbers."""

    total: int
    size: int
    name: str

    @property
    def chunks(self) -> int:
        return chunks_of(self.total)

    def chunk(self, number: int) -> Sequence[list[int]]:
        examples = rows_of(self.total, self.name, number).tolist()
        random_of(self.total, self.name, number).shuffle(examples)
        return [
            examples[first : first + self.size]
            for first in range(0, len(examples), self.size)
        ]


@dataclass(frozen=True)
class Consecutive(Order):
    """`total` batches of `size` examples each, in their own order."""

    total: int
    size: int

    @property
    def chunks(self) -> int:
        return -(-self.total // self._together)

    @property
    def _together(self) -> int:
        return max(1, CHUNK // self.size)

    def chunk(self, number: int) -> Sequence[list[int]]:
        first = number * self._together
        numbers = range(first, min(self.total, first + self._together))
        return [
            list(range(number * self.size, (number + 1) * self.size))
            for number in numbers
        ]


def as_order(batches: Order | Sequence[list[int]]) -> Order:
    """The batches as an order."""
    return batches if isinstance(batches, Order) else ListOrder(batches)


def chunks_of(count: int) -> int:
    """The number of chunks of so many examples."""
    return -(-count // CHUNK)


def rows_of(count: int, name: str, number: int) -> Int[np.ndarray, " row"]:
    """The examples of a chunk, those of a block in their own order."""
    if chunks_of(count) <= 1:
        return np.arange(count)
    blocks = numpy_random(Random(f"{name}/blocks")).permutation(-(-count // BLOCK))
    first = number * (CHUNK // BLOCK)
    own = blocks[first : first + CHUNK // BLOCK]
    rows = (own[:, None] * BLOCK + np.arange(BLOCK)).ravel()
    return rows[rows < count]


def random_of(count: int, name: str, number: int) -> Random:
    """The generator of a chunk. A string seed is hashed with SHA-512, the same in every process."""
    return Random(name if chunks_of(count) <= 1 else f"{name}/{number}")


def numpy_random(random: Random) -> np.random.RandomState:
    """A generator of NumPy in the same state, whose numbers are those of Python's."""
    _, state, _ = random.getstate()
    found = np.random.RandomState(0)
    found.set_state(
        ("MT19937", np.array(state[:-1], dtype=np.uint32), state[-1], 0, 0.0)
    )
    return found


def uniform(random: Random, rows: int, columns: int) -> Float[np.ndarray, "row column"]:
    """The next numbers of `random.random()`, row by row, which the generator has used up afterwards."""
    twin = numpy_random(random)
    numbers = twin.random_sample((rows, columns))
    _, keys, position, *_ = twin.get_state()
    random.setstate((3, (*np.asarray(keys).tolist(), int(position)), None))
    return numbers
