"""The table of aims: met and missed aims, and the results of the quick passes."""

import sys

import pytest
import torch

from benchmarks import additive, aims, product_scores, recording, report, startup
from benchmarks.aim import COLUMNS, Aim, show
from benchmarks.startup import Seconds


@pytest.mark.parametrize(
    ("aim", "met"),
    [
        (Aim("a", "s", 0.3, most=0.3), True),
        (Aim("a", "s", 0.31, most=0.3), False),
        (Aim("a", "s", 2.0, "naive", 20.0, times=10.0), True),
        (Aim("a", "s", 2.0, "naive", 19.9, times=10.0), False),
        (Aim("a", "s", 2.0, times=10.0), False),  # nothing to compare it to
        (Aim("a", "MB", 49.0, "naive", 9.0, times=0.1, most=50.0), True),
        (Aim("a", "MB", 51.0, "naive", 9.0, times=0.1, most=50.0), False),
        (Aim("a", "s", 5.0, "peer", 1.0), True),  # told, not asked for
    ],
)
def test_what_is_met(aim: Aim, met: bool):
    assert aim.met is met
    assert aim.to_json()["met"] is met
    assert aim.cells()[COLUMNS.index("met")] == ("yes" if met else "NO")
    assert len(aim.cells()) == len(COLUMNS)


def test_the_table_counts_what_is_missed(capsys: pytest.CaptureFixture[str]):
    show([Aim("one", "s", 0.5, most=0.3), Aim("two", "ms", 2.0, "naive", 30.0, times=10.0, limited_by="Python")])
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == "| one | 0.5 s |  |  |  | at most 0.3 s | NO |  |"
    assert lines[3] == "| two | 2 ms | naive | 30 ms | 15.00 | ratio at least 10 | yes | Python |"
    assert lines[-1] == "1 of 2 aims met"


def test_a_name_that_is_none_is_refused():
    with pytest.raises(SystemExit, match=r"no benchmark with an aim: startups; expected some of .*startup"):
        aims.main(["startups"])


def test_programs_take_turns(monkeypatch: pytest.MonkeyPatch):
    started = []

    def once(program: list[str]) -> Seconds:
        started.append(program[0])
        return Seconds(float(len(started)), 7.0)

    monkeypatch.setattr(startup, "once", once)
    found = startup.measured({"a": ["a"], "b": ["b"]}, rounds=3)
    assert started == ["a", "b"] * 4
    assert found == {"a": Seconds(5.0, 7.0), "b": Seconds(6.0, 7.0)}


def test_one_start_is_measured():
    taken = startup.once([sys.executable, "-c", "sum(range(10**6))"])
    assert taken.processor > 0
    assert taken.clock > 0


def test_the_worst_case_of_each_kind_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(product_scores, "QUICK", {"short": ["1x1x3x5x7", "1x1x2x2x7"]})
    monkeypatch.setattr(product_scores, "both_forms", lambda call: (1.0, 2.0) if call() is None else (0.002, 0.001))
    [row] = product_scores.aims()
    assert (row.ours, row.theirs, row.met) == (2.0, 1.0, False)
    assert row.what.startswith("product scores, short, 1x1x3x5x7, none, float32")


def test_every_case_can_be_read():
    for case in product_scores.cases(["2x3x5x5x7", *product_scores.DECODING[:1]]):
        call, _ = case.prepare()
        found = call()
        assert found is not None
        tensors = found if case.backward else [found]
        assert all(isinstance(each, torch.Tensor) and each.isfinite().all() for each in tensors)  # type: ignore[union-attr]


def test_what_recording_costs_is_measured(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(report, "apart", lambda *asked: {("recording", "timed", recording.QUICK): [1.02, 1.0]}[asked])
    time, memory = recording.aims()
    assert (time.ours, time.theirs, time.met) == (1020.0, 1000.0, False)
    assert memory.met
    assert memory.theirs is not None
    assert memory.theirs > 4 * recording.LENGTH**2 / 1e6 > 3 * memory.ours


def test_both_forms_of_a_layer_are_one_function():
    ours, theirs = recording.forms("2x5x6x3")
    torch.testing.assert_close(ours(), theirs())


def test_additive_scores_have_their_rows(monkeypatch: pytest.MonkeyPatch):
    megabytes = {
        ("additive", "beyond", additive.LARGE, form): [1e3 if form == "naive" else 49.0] for form in additive.FORMS
    }
    monkeypatch.setattr(report, "apart", lambda *asked: megabytes[asked])
    monkeypatch.setattr(additive, "AIMS", {"2x3x5x7": 0.001, "2x1x5x7": 1e6})
    if additive.library() is None:
        assert additive.aims() == []
        return
    training, step, memory = additive.aims()
    assert (training.met, step.met) == (True, False)
    assert (memory.ours, memory.theirs, memory.met) == (49.0, 1000.0, True)


def test_memory_of_a_process_apart():
    """Beyond the gradients of 3 MB and 0.75 MB no less than all pairs' numbers, of the naive form."""
    [taken] = report.apart("additive", "beyond", "3x64x256x1024", "naive")
    assert taken > 3 * 64 * 256 * 1024 * 4 / 1e6
