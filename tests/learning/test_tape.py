"""A Turing machine learns to copy in seconds, beyond the lengths it has seen, and its commands work."""

import json
from pathlib import Path

import numpy as np
import pytest

from regard.errors import InputError
from regard.models.turing_machine import TuringMachineConfig
from regard.runs import train as launch
from regard.runs.load import load
from regard.tasks.algorithmic import Algorithmic, AlgorithmicRun, Copy, Recall, RepeatCopy, compute_metrics
from regard.training.settings import Training

MODEL = TuringMachineConfig(controller="feed-forward", width=64, rows=8, tape_width=10)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = Algorithmic(
        data=Copy(train=2000, valid=50, test=100, width=5, most=4),
        model=MODEL,
        training=Training(
            steps=250, batch_tokens=384, learning_rate=1e-2, warmup=20, clip=0.1, schedule="linear", validate_every=0
        ),
    )
    out = tmp_path_factory.mktemp("copy") / "run"
    result = launch.train(config, out)
    assert result["test/exact-match"] > 93
    assert result["test/bits-per-sequence"] < 1.5
    return out


def opened(folder: Path) -> AlgorithmicRun:
    return load(folder, "cpu", task=AlgorithmicRun)


def test_it_copies_and_shows_how(folder: Path):
    (said,) = opened(folder).predict(["01100 10010 11101"])
    assert said.text == "01100 10010 11101"
    tape = opened(folder).attribute("01100 10010 11101").weights
    assert tape.writing.shape == tape.reading.shape == (1, 7, 8)
    assert np.isnan(tape.outputs[:4]).all()
    np.testing.assert_allclose(tape.writing.sum(-1), 1, rtol=1e-5)
    written = tape.writing[0, :3].argmax(-1)
    read = tape.reading[0, 4:].argmax(-1)
    assert len(set(written)) == 3
    assert len(set(np.diff(read) % 8)) == 1  # it goes on in one direction


def test_longer_rows_than_in_training(folder: Path):
    run = opened(folder)
    longer = run.config.data.sample_many(30, (6, 6))
    assert compute_metrics(run.model, longer, rows=16)["wrong-bits"] < 30
    assert len(run.predict([" ".join(["01001"] * 11)])[0].values["probabilities"]) == 11


def test_padding_changes_no_figure(folder: Path):
    run = opened(folder)
    some = run.config.data.load().test[:20]
    together = run.evaluate(some)["bits-per-sequence"]
    alone = [run.evaluate([each])["bits-per-sequence"] for each in some]
    assert together == pytest.approx(np.mean(alone), rel=1e-4)


@pytest.mark.parametrize("data", [RepeatCopy(width=2, most=2, most_repeats=2), Recall(width=2, most=3)])
def test_other_tasks_train(data: RepeatCopy | Recall, tmp_path: Path):
    few = {"train": 200, "valid": 10, "test": 10}
    config = Algorithmic(
        data=type(data)(**{**vars(data), **few}),
        model=MODEL,
        training=Training(steps=3, batch_tokens=256, validate_every=0),
    )
    found = launch.train(config, tmp_path / "run")
    assert found["test/bits-per-sequence"] > 0
    text = "01 11 x2" if isinstance(data, RepeatCopy) else "01,11,10 00,01,11 ? 01,11,10"
    (said,) = opened(tmp_path / "run").predict([text])
    assert len(said.text.split()) == (5 if isinstance(data, RepeatCopy) else 3)


def test_commands(regard, folder: Path, tmp_path: Path):
    assert regard("predict", str(folder), "01100 10010", "11101") == (0, "01100 10010\n11101\n", "")
    code, output, _ = regard("predict", str(folder), "01100 10010", "--json")
    found = json.loads(output)
    assert (code, found["prediction"], len(found["probabilities"])) == (0, "01100 10010", 2)
    code, output, _ = regard("show", str(folder), "01100 10010", "--out", str(tmp_path / "x.png"))
    assert (code, output.startswith("01100 10010\n")) == (0, True)
    assert (tmp_path / "x.png").stat().st_size > 1000
    code, output, _ = regard("show", str(folder), "01100 10010", "--out", str(tmp_path / "x.html"))
    assert (code, output.startswith("01100 10010\n")) == (0, True)
    assert '"0: in 011000","1: in 100100","2: in 000001","3: out 01100"' in (tmp_path / "x.html").read_text()
    code, output, _ = regard("evaluate", str(folder), "--json")
    assert (code, json.loads(output)["exact-match"] > 93) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("predict", "{}", "01"), "text 1: '01' is no vector; expected 5 bits, each 0 or 1"),
        (
            ("predict", "{}", "01100", "--beam", "2"),
            "option beam is not supported where a run of the task",
        ),
        (
            ("show", "{}", "01100", "--out", "x.png", "--beam", "2"),
            "the option beam is not supported where a run of the task algorithmic",
        ),
        (("evaluate", "{}", "file"), "a run of the task algorithmic is scored on its own test set only"),
        (("generate", "{}", "1"), "does not continue prompts, but one of the recipe characters-gpt2 does"),
    ],
)
def test_what_does_not_fit(regard, folder: Path, arguments: tuple[str, ...], said: str):
    code, _, errors = regard(*(each.format(folder) for each in arguments))
    assert (code, len(errors.splitlines())) == (2, 1)
    assert said in errors


def test_no_test_set_and_no_list(folder: Path):
    with pytest.raises(InputError, match="there is no test set"):
        opened(folder).evaluate([])
    with pytest.raises(TypeError, match="examples is one str"):
        opened(folder).predict("011")


def test_smoothing_is_refused():
    with pytest.raises(ValueError, match="not for bits"):
        Algorithmic(data=Copy(), training=Training(label_smoothing=0.1))
