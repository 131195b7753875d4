"""Averages of weights."""

import pytest
import torch
from torch import nn

from regard.training.schedules import MovingAverage


def test_the_moving_average_is_its_recurrence():
    weights = nn.Parameter(torch.randn(3, 5))
    average, expected = MovingAverage([weights], 0.5), weights.detach().clone()
    for count in range(1, 12):
        with torch.no_grad():
            weights += torch.randn(3, 5)
        average.update(count)
        decay = min(0.5, (1 + count) / (10 + count))
        expected = decay * expected + (1 - decay) * weights.detach()
    before = weights.detach().clone()
    with average.use():
        torch.testing.assert_close(weights.detach(), expected)
    assert torch.equal(weights, before)


def test_the_weights_come_back_after_an_error():
    weights = nn.Parameter(torch.ones(2))
    average = MovingAverage([weights], 0.9)
    with torch.no_grad():
        weights.fill_(3)
    with pytest.raises(ZeroDivisionError), average.use():
        weights /= 1 // int(weights[0].item() - 1)
    assert weights.tolist() == [3, 3]


def test_an_update_allocates_nothing():
    weights = [nn.Parameter(torch.randn(n)) for n in (3, 7)]
    average = MovingAverage(weights, 0.9)
    with torch.profiler.profile(profile_memory=True) as profile:
        average.update(1)
    assert max((event.self_cpu_memory_usage for event in profile.key_averages()), default=0) == 0
