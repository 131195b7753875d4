"""Learning rates and scheduled sampling against their formulas."""

from itertools import pairwise

import pytest

from regard.training import schedules
from tests.training.toy import settings


@pytest.mark.parametrize(("width", "warmup"), [(256, 100), (11, 1), (64, 0)])
def test_the_inverse_square_root_is_the_transformers(width: int, warmup: int):
    chosen = settings(
        steps=1000,
        schedule="inverse-square-root",
        warmup=warmup,
        learning_rate=(width * max(1, warmup)) ** -0.5,
    )
    w = max(1, warmup)
    for n in (1, 2, 53, w, w + 1, 997):
        assert schedules.rate(chosen, n) == pytest.approx(width**-0.5 * min(n**-0.5, n * w**-1.5), rel=1e-12)


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine", "inverse-square-root"])
def test_the_rate_rises_to_its_peak_and_never_again(schedule: str):
    chosen = settings(steps=101, schedule=schedule, warmup=13, learning_rate=0.5)
    rates = [schedules.rate(chosen, update) for update in range(1, 102)]
    assert max(rates) == rates[12] == pytest.approx(0.5)
    assert rates[:13] == sorted(rates[:13])
    assert rates[12:] == sorted(rates[12:], reverse=True)
    assert rates[0] == pytest.approx(0.5 / 13)
    assert min(rates) > 0


def test_linear_and_cosine_halfway():
    halfway = 1 + 100 // 2
    assert schedules.linear(halfway, 0, 100) == pytest.approx(0.5, abs=0.01)
    assert schedules.cosine(halfway, 0, 100) == pytest.approx(0.5, abs=0.02)
    assert schedules.cosine(26, 0, 100) > schedules.linear(26, 0, 100)


@pytest.mark.parametrize(("start", "end"), [(1.0, 0.25), (0.3, 0.9), (1.0, 1.0), (0.7, 0.0)])
def test_forcing_goes_straight_from_the_first_update_to_the_last(start: float, end: float):
    chosen = settings(steps=101, teacher_forcing=start, teacher_forcing_end=end)
    values = [schedules.forcing(chosen, update) for update in range(1, 102)]
    assert (values[0], values[-1]) == (start, end)
    assert values[50] == pytest.approx((start + end) / 2)
    assert all(after - before == pytest.approx((end - start) / 100) for before, after in pairwise(values))


def test_forcing_without_an_end_stays():
    assert {schedules.forcing(settings(teacher_forcing=0.7), update) for update in range(1, 25)} == {0.7}
    assert schedules.forcing(settings(steps=1, teacher_forcing=0.7, teacher_forcing_end=0.1), 1) == 0.7
