"""Positions of batches: from any of them on the rest is the same, whatever the number of processes."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from regard.data import batches as batching
from regard.data.batches import START, Order, OrderPosition, Shuffled
from regard.errors import InputError
from regard.storage.run_folder import RunDirectory
from regard.training.loop import fit
from regard.training.settings import Training
from regard.training.update import BEGINNING, BatchPositions, Processes
from tests.training import toy


class Rank(Processes):
    """One of several processes, without the others."""

    def __init__(self, rank: int, count: int) -> None:
        self.rank, self.count = rank, count


class Chunked(toy.Following):
    """The same examples in an order of several chunks. `walks` are the epochs, starts and marks of its walks."""

    def __init__(self, **rest: Any) -> None:
        super().__init__(**rest)
        self.walks: list[tuple[int, int, OrderPosition]] = []

    def batches(self, epoch: int) -> Order:  # pyright: ignore[reportIncompatibleMethodOverride]
        walks = self.walks

        class Noted(Shuffled):
            def walk(self, start: int = 0, mark: OrderPosition = START) -> Iterator[tuple[OrderPosition, list[int]]]:
                walks.append((epoch, start, mark))
                return super().walk(start, mark)

        return Noted(101, 3, f"{self.seed}/{epoch}")


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "CHUNK", 20)
    monkeypatch.setattr(batching, "BLOCK", 5)


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 3])
def test_from_any_position_on_the_rest_is_the_same(count: int):
    for rank in range(count):
        processes = Rank(rank, count)
        whole = list(islice(BatchPositions(Chunked(), processes, BEGINNING), 80))
        assert {position.epoch for position in whole} >= {0, 1}
        for number, last in enumerate(whole[:60]):
            start = last.epoch, last.index + 1, last.mark
            assert list(islice(BatchPositions(Chunked(), processes, start), 5)) == whole[number + 1 : number + 6]


def test_processes_share_an_epoch_without_an_example_twice():
    shares = []
    for rank in range(3):
        processes = Rank(rank, 3)
        positions = islice(BatchPositions(Chunked(), processes, BEGINNING), 40)
        shares.append([position.examples for position in positions if position.epoch == 0])
    assert len({len(share) for share in shares}) == 1
    examples = [index for share in shares for batch in share for index in batch]
    assert len(examples) == len(set(examples)) > 90


def test_more_processes_than_batches():
    processes = Rank(0, 60)
    with pytest.raises(InputError, match="epoch 0 has 36 batches for 60 processes; add examples"):
        next(iter(BatchPositions(Chunked(), processes, BEGINNING)))


def test_a_run_stopped_in_a_later_chunk_goes_on_exactly(tmp_path: Path):
    settings = Training(steps=50, checkpoint_every=26, keep_best=0, validate_every=0, device="cpu", batch_tokens=8)
    whole = toy.model()
    with RunDirectory.create(tmp_path / "whole") as run:
        fit(whole, Chunked(), settings, run)
    with RunDirectory.create(tmp_path / "whole", resume=True) as run:
        run.checkpoints.remove(50)
        assert run.checkpoints.steps() == [26]
        task, again = Chunked(), toy.model()
        fit(again, task, settings, run, resume=True)
    assert (0, 26, OrderPosition(3, 20)) in task.walks
    assert all(bool((one == other).all()) for one, other in zip(whole.parameters(), again.parameters(), strict=True))
