"""Sequences whose items are computed when they are read."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar, overload

E = TypeVar("E")


class LazySequence(Sequence[E], ABC, Generic[E]):
    """A sequence that computes each item by `item`; a slice is a list."""

    @abstractmethod
    def item(self, index: int) -> E:
        """The item at an index of 0 or more that is below the length."""

    def __iter__(self) -> Iterator[E]:
        return map(self.item, range(len(self)))

    @overload
    def __getitem__(self, index: int) -> E: ...
    @overload
    def __getitem__(self, index: slice) -> list[E]: ...
    def __getitem__(self, index: int | slice) -> E | list[E]:
        if isinstance(index, slice):
            return [self.item(each) for each in range(*index.indices(len(self)))]
        return self.item(range(len(self))[index])
