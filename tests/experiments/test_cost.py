"""The cost of a training step: the counts are exact, the exponents those of known powers."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from regard.experiments import cost
from regard.experiments.cost import MECHANISMS, Sizes, Work, make_step, one_thread, peak_bytes, time_calls
from regard.experiments.sweep import Setting
from regard.pictures.chart import Pairs

SMALL = Sizes(batch=3, length=64, width=10, heads=2)


def test_an_exponent_is_the_power_of_the_largest_sizes():
    sizes = [3, 5, 7, 11, 13]
    assert cost.fit_exponent(sizes, [17.0 * size**1.5 for size in sizes]) == pytest.approx(1.5)
    assert cost.fit_exponent(sizes, [1e9, 1e9, 49, 121, 169]) == pytest.approx(2)


def test_terms_are_counted_and_written():
    sizes = Sizes(batch=2, length=5, width=21, heads=3)
    assert sizes.count({"BNND": 2, "BNDD/H": 3}) == 2 * 2 * 5 * 5 * 21 + 3 * 2 * 5 * 21 * 21 / 3
    assert sizes.count({"W": 1}) == 5  # no more keys than there are
    assert replace(sizes, length=99).count({"W": 1}) == 17
    assert cost.format_terms({"BNND": 2, "BNDD/H": 3}) == "BN²D + BND²/H"


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


def test_each_call_is_timed_in_every_round():
    asked = []
    calls = [lambda: asked.append("a"), lambda: asked.append("b")]
    found = time_calls(calls, rounds=3, least=0.0)
    assert len(found) == 2
    assert all(each >= 0 for each in found)
    assert "".join(asked) == "ab" * 4


def test_the_threads_are_as_before():
    before = torch.get_num_threads()
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before


def test_every_mechanism_has_its_rows_and_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cost, "SWEEPS", {"heads": (1, 2, 4), "length": (8, 12, 16)})
    monkeypatch.setattr(cost, "time_calls", lambda calls, rounds: [(1.0 + place) ** 2 for place in range(len(calls))])
    finding = cost.cost(Setting(tmp_path))
    found = [(row[0], row[2]) for row in finding.rows]
    assert found == [(name, by) for name in MECHANISMS for by in ("heads", "length") if (name, by) != ("GRU", "heads")]
    time, memory, *by_heads = finding.charts
    assert isinstance(time, Pairs)
    assert isinstance(memory, Pairs)
    assert [*time.rows] == [*memory.rows]
    assert {*time.rows} == {*MECHANISMS}
    assert [each.title for each in by_heads] == [
        "how time grows with the number of heads H",
        "how memory grows with the number of heads H",
    ]
    assert all(isinstance(each, Pairs) and {*each.rows} == {*MECHANISMS} - {"GRU"} for each in by_heads)
    of_dot = dict(
        zip(cost.COLUMNS, next(row for row in finding.rows if (row[0], row[2]) == ("dot", "length")), strict=True)
    )
    assert time.rows["dot"] == (of_dot["time, theory"], of_dot["time, measured"])
    assert memory.rows["dot"] == (of_dot["memory, theory"], of_dot["memory, measured"])
    assert time.rows["dot"][1] == pytest.approx(cost.fit_exponent([8, 12, 16], [1, 4, 9]), abs=0.01)
    assert (time.remarks["dot"], memory.remarks["dot"]) == ("9e+03 ms at 16", f"{of_dot['MB']:.3g} MB at 16")


def test_those_that_grow_most_come_first():
    rows = [(name, "", "length", 1.0, grown, 1.0, 1.0, 1024, 2.0, 3.0) for name, grown in (("a", 1.0), ("b", 2.0))]
    time, memory, heads, _ = cost.list_charts([*rows, ("a", "", "heads", *(9.0 for _ in range(4)), 16, 2.0, 3.0)])
    assert [*heads.rows.items()] == [("a", (9.0, 9.0))]
    assert [*time.rows.items()] == [("b", (1.0, 2.0)), ("a", (1.0, 1.0))]
    assert [*memory.rows] == ["b", "a"]


def test_sizes_that_would_not_fit_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cost, "SWEEPS", {"length": (8, 12, 16, 2**20)})
    monkeypatch.setattr(cost, "MECHANISMS", {"additive": MECHANISMS["additive"]})
    monkeypatch.setattr(cost, "time_calls", lambda calls, rounds: [1.0] * len(calls))
    [row] = cost.cost(Setting(tmp_path)).rows
    assert dict(zip(cost.COLUMNS, row, strict=True))["at"] == 16
