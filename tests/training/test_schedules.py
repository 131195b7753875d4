"""Learning rates and scheduled sampling against their formulas; selection of checkpoints; averages of weights."""

import json
from dataclasses import asdict
from itertools import pairwise

import pytest
import torch
from pydantic import TypeAdapter
from torch import nn

from regard.training import settings as schedules
from regard.training.settings import MovingAverage, Selection, Validated
from tests.training.toy import settings


@pytest.mark.parametrize(("width", "warmup"), [(256, 100), (11, 1), (64, 0)])
def test_the_inverse_square_root_is_the_transformers(width: int, warmup: int):
    chosen = settings(
        steps=1000, schedule="inverse-square-root", warmup=warmup, learning_rate=(width * max(1, warmup)) ** -0.5
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
    linear, cosine = (settings(steps=100, schedule=name, learning_rate=1.0) for name in ("linear", "cosine"))
    assert schedules.rate(linear, halfway) == pytest.approx(0.5, abs=0.01)
    assert schedules.rate(cosine, halfway) == pytest.approx(0.5, abs=0.02)
    assert schedules.rate(cosine, 26) > schedules.rate(linear, 26)


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


def observe(selection: Selection, values: list[float], higher: bool = True, **changes: int) -> list[bool]:
    chosen = settings(**changes)
    return [
        selection.observe(Validated(5 * n, value, {"m": value}), chosen, higher)
        for n, value in enumerate(values, start=1)
    ]


def test_the_best_are_kept_in_order_and_of_equals_the_later_is_better():
    selection = Selection()
    assert observe(selection, [3.0, 7.0, 7.0, 5.0], keep_best=3) == [True, True, False, False]
    assert [(kept.value, kept.update) for kept in selection.best] == [(7, 15), (7, 10), (5, 20)]


def test_equals_are_ranked_by_the_next_metric_in_its_direction():
    selection = Selection()
    for update, (chrf, perplexity) in enumerate([(0.0, 9.0), (47.7, 9.0), (47.7, 4.0), (47.7, 5.0)], 1):
        figures = {"bleu": 0.0, "chrf": chrf, "perplexity": perplexity}
        selection.observe(Validated(update, 0.0, figures), settings(keep_best=4), True)
    assert [kept.update for kept in selection.best] == [3, 4, 2, 1]


def test_lower_can_be_better_and_a_nan_never_is():
    selection = Selection()
    assert observe(selection, [float("nan"), 4.0, 5.0, 3.0], higher=False, keep_best=2) == [False, True, False, True]
    assert [kept.value for kept in selection.best] == [3, 4]


def test_what_is_no_longer_wanted():
    selection, chosen = Selection(), settings(keep_best=1)
    selection.observe(Validated(3, 1.0, {}), chosen, True)
    assert [selection.add(update) for update in (3, 6, 9, 12, 12)] == [[], [], [], [6], []]
    selection.observe(Validated(15, 2.0, {}), chosen, True)
    assert selection.add(15) == [3, 9]
    assert selection.recent == [12, 15]


def test_it_survives_json():
    selection = Selection()
    observe(selection, [3.0, 7.0])
    selection.add(10)
    assert TypeAdapter(Selection).validate_json(json.dumps(asdict(selection)), strict=True) == selection


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
