"""Selection of checkpoints, and early stopping."""

import json
from dataclasses import asdict

from pydantic import TypeAdapter

from regard.training.schedules import Selection, Validated
from tests.training.toy import settings


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


def test_patience():
    selection = Selection()
    observe(selection, [3.0, 2.0, 1.0], patience=2)
    assert selection.exhausted(settings(patience=2))
    assert not selection.exhausted(settings(patience=3))
    assert not selection.exhausted(settings(patience=0))


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
