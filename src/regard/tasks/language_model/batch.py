"""Windows of one long sequence of tokens in batches, for training: pure functions of the seed and the epoch.

Every epoch cuts the text at other places. The first token is input only.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from regard.data import order
from regard.data.batching import Batch
from regard.errors import InputError
from regard.shapes import Int


@dataclass(frozen=True, repr=False)
class WindowBatch(Batch):
    """Windows of a text, `inputs (batch, position)`, and the next token at each position, `expected`. `fresh` batches
    start from an empty state; others continue the batch before."""

    inputs: Int[Tensor, "batch position"]
    expected: Int[Tensor, "batch position"]
    fresh: bool = True


@runtime_checkable
class Tokens(Protocol):
    """One long sequence of tokens, whose slices are tensors."""

    def __len__(self) -> int: ...

    def __getitem__(self, place: slice, /) -> Tensor: ...


@dataclass(frozen=True)
class Windows(ABC):
    """Batches of `rows` windows, `size` tokens long, of `tokens (position,)`.

    Raises:
        InputError: the text is shorter than one batch.
    """

    tokens: Tokens
    size: int
    rows: int
    seed: int

    def __post_init__(self) -> None:
        needed, found = self.rows * self.size + 1, len(self.tokens)
        if found < needed:
            raise InputError(
                f"training text: shorter than one batch: needed {needed} tokens ({self.rows} x {self.size} and one), "
                f"found {found}; add text, or lower training.batch_tokens or window"
            )

    @abstractmethod
    def batches(self, epoch: int) -> order.Order:
        """The epoch's batches as lists of examples, in the order of training."""

    @abstractmethod
    def batch(self, epoch: int, examples: Sequence[int]) -> WindowBatch:
        """The batch of the windows with these indices."""

    def random(self, epoch: int) -> Random:
        """The generator of an epoch."""
        return Random(f"{self.seed}/{epoch}")

    def cut(self, starts: Sequence[int], length: int, *, fresh: bool) -> WindowBatch:
        """Windows of `length` tokens that begin at `starts`."""
        parts = torch.stack(
            [self.tokens[start : start + length + 1] for start in starts]
        )
        return WindowBatch(parts[:, :-1], parts[:, 1:], fresh)


class Shuffled(Windows):
    """Windows in random order, each independent."""

    def first(self, epoch: int) -> int:
        """The start of an epoch's first window."""
        spare = len(self.tokens) - 1 - self.rows * self.size
        return self.random(epoch).randrange(min(self.size, spare + 1))

    def batches(self, epoch: int) -> order.Order:
        count = (len(self.tokens) - 1 - self.first(epoch)) // self.size
        return order.Shuffled(count, self.rows, f"{self.seed}/{epoch}")

    def batch(self, epoch: int, examples: Sequence[int]) -> WindowBatch:
        first = self.first(epoch)
        return self.cut(
            [first + example * self.size for example in examples], self.size, fresh=True
        )


@dataclass(frozen=True)
class Consecutive(Windows):
    """The text in as many parts as all `processes` have rows, each read in order: a batch continues the one before it
    of the same process. The last batch of an epoch may be shorter."""

    processes: int = 1

    def part(self, epoch: int) -> tuple[int, int]:
        """The start of an epoch's first part, and the length of each part."""
        parts = self.rows * self.processes
        spare = max(0, len(self.tokens) - 1 - parts * self.size)
        first = self.random(epoch).randrange(min(self.size, spare + 1))
        return first, (len(self.tokens) - 1 - first) // parts

    def batches(self, epoch: int) -> order.Order:
        _, length = self.part(epoch)
        count = -(-length // self.size) * self.processes
        return order.Consecutive(count, self.rows)

    def batch(self, epoch: int, examples: Sequence[int]) -> WindowBatch:
        first, length = self.part(epoch)
        places = [divmod(example, self.rows * self.processes) for example in examples]
        turn = places[0][0]
        starts = [first + part * length + turn * self.size for _, part in places]
        return self.cut(
            starts, min(self.size, length - turn * self.size), fresh=turn == 0
        )
