"""Windows of running text: each token once, their order, and their distribution over processes."""

from itertools import pairwise

import pytest
import torch

from regard.tasks.language_model.training import Consecutive, Shuffled, WindowBatch

TOKENS = torch.arange(211)


def batches(windows: Shuffled | Consecutive, epoch: int) -> list[WindowBatch]:
    return [windows.batch(epoch, examples) for examples in windows.batches(epoch)]


@pytest.mark.parametrize("windows", [Shuffled(TOKENS, 7, 3, 1), Consecutive(TOKENS, 7, 3, 1)], ids=["any", "row"])
def test_every_token_is_expected_at_most_once_and_follows_what_is_given(windows: Shuffled | Consecutive):
    for epoch in range(5):
        found = batches(windows, epoch)
        expected = torch.cat([batch.expected.flatten() for batch in found])
        assert len(expected.unique()) == len(expected) > 190
        for batch in found:
            assert torch.equal(batch.expected, batch.inputs + 1)
        assert list(windows.batches(epoch)) == list(windows.batches(epoch))


def test_epochs_are_cut_at_different_places():
    starts = {batches(Consecutive(TOKENS, 7, 3, 1), epoch)[0].inputs[0, 0].item() for epoch in range(20)}
    assert len(starts) > 3
    assert {batches(Shuffled(TOKENS, 7, 3, seed), 0)[0].inputs[0, 0].item() for seed in range(9)} != {0}


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_each_process_reads_its_own_parts_in_order(processes: int):
    windows = Consecutive(TOKENS, 5, 2, 1, processes)
    found = batches(windows, 0)
    assert len(found) % processes == 0
    for rank in range(processes):
        own = found[rank::processes]
        assert [batch.fresh for batch in own] == [True] + [False] * (len(own) - 1)
        for before, after in pairwise(own):
            assert torch.equal(after.inputs[:, 0], before.expected[:, -1])
        assert all(batch.inputs.shape == (2, 5) for batch in own[:-1])


def test_shuffled_windows_stand_alone():
    windows = Shuffled(TOKENS, 7, 3, 1)
    found = batches(windows, 0)
    assert all(batch.fresh for batch in found)
    assert found[0].inputs[0, 0] != windows.sample_start(0, 3)
    order = [int(batch.inputs[0, 0]) for batch in found]
    assert order != sorted(order)


def test_text_of_exactly_one_batch_is_enough():
    for kind in (Shuffled, Consecutive):
        (batch,) = batches(kind(torch.arange(22), 7, 3, 1), 4)
        assert batch.inputs.shape == (3, 7)
