"""The table of aims: met and missed aims, and the results of the quick passes."""

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import additive, aims, gpu, peers, recording, startup, training
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

    def run_once(program: list[str]) -> Seconds:
        started.append(program[0])
        return Seconds(float(len(started)), 7.0)

    monkeypatch.setattr(startup, "run_once", run_once)
    seconds = startup.measure({"a": ["a"], "b": ["b"]}, rounds=3)
    assert started == ["a", "b"] * 4
    assert seconds == {"a": Seconds(5.0, 7.0), "b": Seconds(6.0, 7.0)}


def test_recording_is_compared_with_one_function():
    ours, theirs = recording.make_forms("2x5x6x3").values()
    torch.testing.assert_close(ours(), theirs(), rtol=1e-4, atol=1e-5)


def test_additive_forms_are_one_function():
    if additive.additive_library() is None:
        pytest.skip("there is no kernel here")
    torch.manual_seed(1)
    naive, fused = additive.make_forms("2x3x5x7", compiled=False).values()
    torch.testing.assert_close(naive(), fused())


@pytest.mark.filterwarnings("ignore:flex_attention called without")
def test_the_script_for_gpus_works_on_a_cpu(capsys: pytest.CaptureFixture[str]):
    gpu.main(["--tiny", "products", "gpt2"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.startswith("{'what': ") for line in lines] == [True] * 7


SMALL = [([5, 7, 11], [13, 5]), ([7], [5, 11, 7, 13]), ([5, 11], [5])] * 8


@pytest.mark.parametrize("system", training.OURS)
def test_updates_learn(system: str, monkeypatch: pytest.MonkeyPatch):
    build: Any = training.OURS[system]
    small = {"width": 8, "encoder_width": 8, "embedding": 8, "hidden": 11, "heads": 2, "layers": 1}
    sizes = {name: small.get(name, value) for name, value in build.keywords.items()}
    monkeypatch.setattr(training, "VOCABULARY", 17)
    [batch, *_] = training.make_batches(SMALL, 64)
    update = build.func(*build.args, **sizes)
    losses = [update(batch, False).loss for _ in range(8)]
    assert losses[-1] < losses[0]


def test_only_products_are_repeated():
    """A product has two more behind it, one for the gradient of each factor."""
    weight, calls = torch.ones(3, 2, requires_grad=True), list[str]()

    def update(batch: Any, bf16: bool) -> None:
        calls.append("update")
        states = batch.source.to(torch.float32).requires_grad_()
        (states[:, :3] @ weight).exp().sum().backward()

    products, [batch, *_] = training.only_products(update), training.make_batches(SMALL, 32)
    products(batch, False)
    with training.ProductRecorder() as recorder:
        products(batch, False)
    assert calls == ["update"]
    assert len(recorder.calls) == 3


def test_a_worker_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho loading\necho ready\nwhile read number precision; do echo $number.5; done\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    with peers.workers(["a", "b"], [], "module") as running:
        assert [worker.seconds(number, "fp32") for worker in running for number in (3, 7)] == [3.5, 7.5] * 2
    assert all(worker.process.poll() is not None for worker in running)


def test_a_worker_that_ends_is_reported(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    with pytest.raises(SystemExit, match="a ended before it answered, with code 1"), peers.workers(["a"], [], "module"):
        pass
