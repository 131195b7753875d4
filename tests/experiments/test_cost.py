"""The cost of a training step: the counts are exact, the exponents those of known powers."""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from regard.experiments import cost
from regard.experiments.cost import MECHANISMS, Sizes, Work, make_step, peak_bytes
from regard.experiments.sweep import Setting
from regard.pictures.chart import Chart

SMALL = Sizes(batch=3, length=64, width=10, heads=2)


def test_an_exponent_is_the_power_of_the_largest_sizes():
    sizes = [3, 5, 7, 11, 13]
    assert cost.fit_exponent(sizes, [17.0 * size**1.5 for size in sizes]) == pytest.approx(1.5)
    assert cost.fit_exponent(sizes, [1e9, 1e9, 49, 121, 169]) == pytest.approx(2)


def test_terms_are_counted_and_written():
    sizes = Sizes(batch=2, length=5, width=21, heads=3)
    assert sizes.count({"BNND": 2, "BNDK": 3}) == 2 * 2 * 5 * 5 * 21 + 3 * 2 * 5 * 21 * 21 / 3
    assert sizes.count({"W": 1}) == 5  # no more keys than there are
    assert replace(sizes, length=99).count({"W": 1}) == 17
    assert cost.format_terms({"BNND": 2, "BNDK": 3}) == "BN²D + BNDK"


def test_the_peak_is_of_the_tensors_alive_at_once():
    given = torch.ones(1000)

    def call() -> Tensor:
        first = given + 1
        second = first * 2
        del first
        return torch.cat([second, second[:500]])[5:]

    assert peak_bytes(call) == 4 * (1000 + 1500)
    assert peak_bytes(lambda: given[:500].view(5, 100)) == 0
    assert peak_bytes(lambda: given.exp_()) == 0


def test_the_peak_sees_the_backward_pass():
    given = torch.ones(1000, requires_grad=True)
    work = Work(lambda: given.exp().sin(), [given])
    assert peak_bytes(make_step(work)) == 4 * 1000 * 4  # both results, the cosine of one, and the first gradient


@pytest.mark.parametrize("name", ["dot, weights kept", "additive, plain", "location"])
@pytest.mark.parametrize(("by", "values"), [("batch", (3, 5, 7)), ("length", (64, 96, 128)), ("heads", (1, 2, 5))])
def test_memory_of_the_plain_forms_grows_as_it_should(name: str, by: str, values: tuple[int, ...]):
    sizes = [replace(SMALL, **{by: value}) for value in values]
    calls = [make_step(MECHANISMS[name].make(each)) for each in sizes]
    theory = cost.fit_exponent(values, [each.count(MECHANISMS[name].stored) for each in sizes])
    assert cost.fit_exponent(values, [peak_bytes(call) for call in calls]) == pytest.approx(theory, abs=0.15)


def test_every_mechanism_has_its_row_and_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cost, "LENGTHS", (8, 12, 16))
    durations = itertools.count(1)
    monkeypatch.setattr(cost, "time_call", lambda call, seconds: float(next(durations)))
    finding = cost.cost(Setting(tmp_path))
    time, memory = finding.charts
    assert isinstance(time, Chart)
    assert isinstance(memory, Chart)
    assert [row[0] for row in finding.rows] == [*time.lines] == [*memory.lines] == [*MECHANISMS]
    dot = dict(zip(cost.COLUMNS, finding.rows[0], strict=True))
    assert time.lines["dot"] == [(8.0, 1e3), (12.0, 2e3), (16.0, 3e3)]
    assert dot["time, measured"] == pytest.approx(cost.fit_exponent([8, 12, 16], [1, 2, 3]), abs=0.01)
    assert (dot["at"], dot["ms"], dot["MB"]) == (16, 3e3, memory.lines["dot"][-1][1])


def test_sizes_that_would_not_fit_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cost, "LENGTHS", (8, 12, 16, 2**20))
    monkeypatch.setattr(cost, "MECHANISMS", {"additive": MECHANISMS["additive"]})
    monkeypatch.setattr(cost, "time_call", lambda call, seconds: 1.0)
    [row] = cost.cost(Setting(tmp_path)).rows
    assert dict(zip(cost.COLUMNS, row, strict=True))["at"] == 16
