"""The batches of one process, prepared by workers or in place, from any position on."""

import os
import re
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

from regard.data.order import OrderPosition, as_order
from regard.errors import InputError, RunError
from regard.training.objectives import Objective, origin
from regard.training.processes import Processes, leave_group
from regard.training.settings import Training


@dataclass(frozen=True)
class Position:
    """The position of a batch.

    Its epoch, its index in this process's share of the epoch, its examples, and the
    mark from which the epoch's order finds it.
    """

    epoch: int
    index: int
    examples: list[int]
    mark: OrderPosition


@dataclass(frozen=True)
class Prepared:
    """A batch and its position; `fault` is one line on why there is no batch."""

    position: Position
    batch: Any
    fault: str = ""


Start = tuple[int, int, OrderPosition]
"""The epoch and the index of a position, and a mark at or before it."""
BEGINNING: Start = (0, 0, OrderPosition())


class Positions:
    """Positions of one process from a start on, without end; equally many an epoch."""

    def __init__(
        self,
        objective: Objective,
        processes: Processes,
        start: Start,
    ) -> None:
        self.objective = objective
        self.rank = processes.rank
        self.count = processes.count
        self.start = start

    def examples(self, epoch: int, index: int) -> list[int]:
        """Return the examples at a position."""
        return self.objective.batches(epoch)[index * self.count + self.rank]

    def __iter__(self) -> Iterator[Position]:
        epoch, index, mark = self.start
        while True:
            order = as_order(self.objective.batches(epoch)).walk(
                index * self.count, mark
            )
            while len(batches := list(islice(order, self.count))) == self.count:
                yield Position(epoch, index, batches[self.rank][1], batches[0][0])
                index += 1
            if index == 0:
                raise InputError(
                    f"epoch {epoch} has {len(batches)} batches for {self.count} processes; "
                    "add examples or lower batch_tokens"
                )
            epoch = epoch + 1
            index = 0
            mark = OrderPosition()


class _Batches(Dataset[Prepared]):
    """Build batches.

    A worker first notes which one, so that an error can name it if the worker dies.
    """

    def __init__(self, objective: Objective, workers: int) -> None:
        self.objective = objective
        self.working = torch.zeros(
            max(1, workers), 3, dtype=torch.int64
        ).share_memory_()

    def __getitem__(self, position: Position) -> Prepared:
        worker = get_worker_info()
        if worker is not None:
            self.working[worker.id] = torch.tensor(
                [os.getpid(), position.epoch, position.index]
            )
        try:
            return Prepared(
                position, self.objective.batch(position.epoch, position.examples)
            )
        except Exception as error:
            return Prepared(position, None, self._fault(position, error))

    def _fault(self, position: Position, error: Exception) -> str:
        """One line that names the first example that fails by itself, or the batch if none does."""
        examples = position.examples
        cause = error
        for index in position.examples:
            try:
                self.objective.batch(position.epoch, [index])
            except Exception as single:
                examples = [index]
                cause = single
                break
        last = traceback.extract_tb(cause.__traceback__)[-1]
        subject = (
            f"example {examples[0]}"
            if len(examples) == 1
            else f"the batch of examples {_list_examples(examples)}"
        )
        return (
            f"{subject}{origin(self.objective, examples[:1])} cannot be made into a batch: {type(cause).__name__}: "
            f"{' '.join(str(cause).split())} (raised at {last.filename}:{last.lineno})"
        )


def _list_examples(examples: list[int]) -> str:
    listed = ", ".join(str(example) for example in examples[:8])
    return listed if len(examples) <= 8 else f"{listed} and {len(examples) - 8} more"


def _same(value: Any) -> Any:
    return value


def _start_worker(_: int) -> None:
    leave_group()


class BatchStream:
    """Iterate over this process's batches from a place on, without end.

    Leave the `with` block to end its workers.

    Never uses the global random states. The death of a worker is noticed by a signal,
    so it can surface anywhere inside the `with` block; leaving the block turns it into
    an error that names the examples.

    Raises:
        RunError: an example cannot be made into a batch, or a worker died.
        InputError: fewer batches than processes.
    """

    def __init__(
        self,
        objective: Objective,
        settings: Training,
        processes: Processes,
        start: Start = BEGINNING,
    ) -> None:
        self.objective = objective
        self._data = _Batches(objective, settings.workers)
        self._positions = Positions(objective, processes, start)
        loader = DataLoader(
            self._data,
            batch_size=None,
            sampler=self._positions,  # pyright: ignore[reportArgumentType]
            num_workers=settings.workers,
            collate_fn=_same,
            worker_init_fn=_start_worker,
            generator=torch.Generator().manual_seed(settings.seed),
        )
        self._iterator: Iterator[Prepared] | None = iter(loader)

    def __enter__(self) -> "BatchStream":
        return self

    def __exit__(
        self,
        kind: object,
        error: BaseException | None,
        trace: object,
    ) -> None:
        self._iterator = None
        if isinstance(error, RuntimeError) and "DataLoader worker (pid" in str(error):
            raise RunError(self._death(str(error))) from None

    def __iter__(self) -> "BatchStream":
        return self

    def __next__(self) -> Prepared:
        if self._iterator is None:
            raise ValueError("the stream of batches is closed")
        prepared = next(self._iterator)
        if prepared.fault:
            raise RunError(prepared.fault)
        return prepared

    def _death(self, message: str) -> str:
        dead = {
            int(number)
            for group in re.findall(r"pid(?:\(s\))? ([\d, ]+)", message)
            for number in group.split(",")
        }
        for process, epoch, index in self._data.working.tolist():
            if process in dead:
                examples = self._positions.examples(epoch, index)
                return (
                    f"a worker died while it prepared the batch of examples {_list_examples(examples)}"
                    f"{origin(self.objective, examples[:1])}; memory may be short: lower workers or batch_tokens"
                )
        return (
            "a worker died before its first batch; memory may be short: lower workers"
        )
