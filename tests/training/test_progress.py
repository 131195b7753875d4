"""The progress line and bar."""

import errno
import io
import sys
from types import SimpleNamespace

import pytest

from regard.training.objectives import unit_of
from regard.training.progress import Progress, UpdateSums, duration
from regard.training.update import UpdateResult


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_plain_lines_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stderr", stream := io.StringIO())
    progress = Progress(10, interval=4)
    for update in range(1, 11):
        progress.update(update, 2.5, 1234.0)
    progress.close()
    lines = stream.getvalue().splitlines()
    assert [line.split("  ")[0] for line in lines] == ["4/10", "8/10", "10/10"]
    assert "loss 2.5000  1,234 tokens/s  0:00 left" in lines[0]
    assert "\r" not in stream.getvalue()


def test_the_speed_counts_what_the_objective_reads(monkeypatch: pytest.MonkeyPatch):
    assert unit_of(SimpleNamespace(unit="images")) == "images"
    assert unit_of(SimpleNamespace()) == "tokens"
    monkeypatch.setattr(sys, "stderr", stream := io.StringIO())
    Progress(1, interval=1, unit="images").update(1, 2.5, 1234.0)
    assert "1,234 images/s" in stream.getvalue()


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    progress = Progress(5, interval=1)
    for update in (4, 5):  # a run that goes on after update 3
        progress.update(update, 2.5, 1234.0)
    progress.note("validated")
    progress.close()
    before, after = stream.getvalue().split("validated\n")
    assert "60%|" in before
    assert before.endswith("\r")  # the line is empty again
    assert "5/5 [" in after
    assert ", loss 2.5000, 1,234 tokens/s]" in after
    assert after.endswith("\n")


def test_other_processes_are_silent(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stderr", stream := io.StringIO())
    progress = Progress(2, interval=1, visible=False)
    progress.update(1, 2.5, 10.0)
    progress.note("x")
    progress.close()
    assert stream.getvalue() == ""


def test_durations():
    assert [duration(seconds) for seconds in (0.0, 61.4, 3599.6, 7384.0)] == ["0:00", "1:01", "1:00:00", "2:03:04"]


def test_sums_weigh_losses_by_their_terms_and_counts_what_the_model_read():
    sums = UpdateSums()
    sums.add(UpdateResult(1.0, 30, 60, 5.0, 0), 0.5)
    sums.add(UpdateResult(3.0, 10, 20, 2.0, 0), 0.5)
    assert sums.figures() == {"loss": 1.5, "gradient_norm": 5.0, "tokens": 80, "tokens_per_second": 80.0}


class Gone(io.StringIO):
    """A stream whose reader has gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


def closed() -> io.StringIO:
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.mark.parametrize("stream", [Gone(), None, closed()], ids=["reader gone", "no descriptor", "closed"])
def test_progress_that_nobody_reads_ends_nothing(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO | None):
    monkeypatch.setattr(sys, "stderr", stream)
    progress = Progress(3, interval=1)
    for update in range(1, 4):
        progress.update(update, 2.5, 10.0)
        progress.note("x")
    progress.close()
    assert stream is None or not progress.visible
