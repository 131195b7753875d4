"""A pointer network learns to sort and a Turing machine to copy in seconds, and their pictures show how."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from regard.models.pointer_network import PointerNetworkConfig
from regard.models.turing_machine import TuringMachineConfig
from regard.runs import run_file
from regard.runs import train as launch
from regard.runs.recipes import path_of
from regard.runs.run_file import load
from regard.tasks.algorithmic import Algorithmic, AlgorithmicRun, Copy, Recall, RepeatCopy
from regard.tasks.options import EvaluationOptions
from regard.tasks.pointer import ConvexHull, Pointer, PointerRun, Sorting
from regard.training.settings import Training


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = Pointer(
        data=Sorting(train=2000, valid=50, test=100, least=2, most=4),
        model=PointerNetworkConfig(width=32, attention=32, max_elements=5),
        training=Training(
            steps=250, batch_tokens=512, learning_rate=1e-2, warmup=20, schedule="linear", validate_every=0
        ),
    )
    out = tmp_path_factory.mktemp("sorting") / "run"
    result = launch.train(config, out)
    assert result["test/exact-match"] > 85
    assert result["test/places"] > 95
    return out


def test_it_sorts_what_it_has_not_seen(folder: Path):
    run = load(folder)
    assert isinstance(run, PointerRun)
    (found,) = run.predict(["0.9 0.1 0.5"])
    assert found.values["places"] == (1, 2, 0)
    assert found.values["score"] > -1
    attention = run.attribute("0.9 0.1 0.5").weights
    assert attention.target == ("0.1", "0.5", "0.9", "</s>")
    assert attention.source == ("</s>", "0.9", "0.1", "0.5")
    assert [int(row.argmax()) for row in attention.weights] == [2, 3, 1, 0]
    assert run.evaluate()["exact-match"] > 85


SMALL = {
    "pronouns": ("f1", "training.steps=700 training.batch_tokens=768 data.train=3000 model.width=48 model.hidden=48"),
    "templates": ("exact-match", "training.steps=300 training.batch_tokens=768 data.train=4000 data.facts=2"),
}
"""The metric and the settings of recipes that learn what to look up in a quarter of a minute."""


@pytest.mark.parametrize("recipe", SMALL)
def test_small_recipes_find_what_they_look_up(recipe: str, tmp_path: Path):
    """Nouns that training never had, and words of facts that it never had."""
    metric, settings = SMALL[recipe]
    rate = {"pronouns": "3e-3 tokenizer.minimum_count=5", "templates": "5e-3 model.width=64 model.attention=48"}[recipe]
    given = f"{settings} training.learning_rate={rate} training.warmup=20 data.valid=20 data.test=100"
    config = run_file.read(path_of(recipe), [*given.split(), "training.threads=1", "training.validate_every=0"])
    assert launch.train(config, tmp_path / "run")[f"test/{metric}"] > 80


def test_commands_of_a_pointer(regard, folder: Path, tmp_path: Path):
    assert regard("predict", str(folder), "0.9 0.1 0.5", "0.2 0.7") == (0, "1 2 0\n0 1\n", "")
    code, output, _ = regard("show", str(folder), "0.9 0.1 0.5", "--out", str(tmp_path / "x.svg"))
    assert code == 0
    assert output.startswith("1 2 0\n")
    assert (tmp_path / "x.svg").stat().st_size > 1000
    assert regard("evaluate", str(folder))[0] == 0
    assert '"places": [1, 2, 0]' in regard("predict", str(folder), "0.9 0.1 0.5", "--json")[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("predict", "{}", "0.5 x"), "text 1: '0.5 x'; expected elements of 1 numbers"),
        (("predict", "{}", ""), "; expected elements"),
        (("predict", "{}", "1 2 3 4 5 6"), "text 1: has 6 elements; the model takes 5"),
    ],
)
def test_what_does_not_fit(regard, folder: Path, arguments: tuple[str, ...], said: str):
    code, _, errors = regard(*(each.format(folder) for each in arguments))
    assert (code, len(errors.splitlines())) == (2, 1)
    assert said in errors


def test_more_elements_than_the_model_has_places_for():
    with pytest.raises(ValueError, match=r"data.most is 10, more than model.max_elements, 9; raise that"):
        Pointer(data=ConvexHull(), model=PointerNetworkConfig(max_elements=9))
    with pytest.raises(ValueError, match="label_smoothing"):
        Pointer(data=ConvexHull(), training=Training(label_smoothing=0.1))


MODEL = TuringMachineConfig(controller="feed-forward", width=64, rows=8, tape_width=10)


@pytest.fixture(scope="module")
def copying(tmp_path_factory: pytest.TempPathFactory) -> Path:
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


def test_it_copies_and_shows_how(copying: Path):
    (said,) = opened(copying).predict(["01100 10010 11101"])
    assert said.text == "01100 10010 11101"
    tape = opened(copying).attribute("01100 10010 11101").weights
    assert tape.writing.shape == tape.reading.shape == (1, 7, 8)
    assert np.isnan(tape.outputs[:4]).all()
    np.testing.assert_allclose(tape.writing.sum(-1), 1, rtol=1e-5)
    written = tape.writing[0, :3].argmax(-1)
    read = tape.reading[0, 4:].argmax(-1)
    assert len(set(written)) == 3
    assert len(set(np.diff(read) % 8)) == 1  # it goes on in one direction


def test_longer_rows_than_in_training(copying: Path):
    run = opened(copying)
    longer = replace(run.config.data, least=6, most=6, test=30).tests()
    assert run.compute_metrics(longer, EvaluationOptions(), rows=16)["wrong-bits"] < 30
    assert len(run.predict([" ".join(["01001"] * 11)])[0].values["probabilities"]) == 11


def test_padding_changes_no_figure(copying: Path):
    run = opened(copying)
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


def test_commands_of_a_machine(regard, copying: Path, tmp_path: Path):
    assert regard("predict", str(copying), "01100 10010", "11101") == (0, "01100 10010\n11101\n", "")
    code, output, _ = regard("predict", str(copying), "01100 10010", "--json")
    found = json.loads(output)
    assert (code, found["prediction"], len(found["probabilities"])) == (0, "01100 10010", 2)
    code, output, _ = regard("show", str(copying), "01100 10010", "--out", str(tmp_path / "x.png"))
    assert (code, output.startswith("01100 10010\n")) == (0, True)
    assert (tmp_path / "x.png").stat().st_size > 1000
    code, output, _ = regard("show", str(copying), "01100 10010", "--out", str(tmp_path / "x.html"))
    assert (code, output.startswith("01100 10010\n")) == (0, True)
    assert '"0: in 011000","1: in 100100","2: in 000001","3: out 01100"' in (tmp_path / "x.html").read_text()
    code, output, _ = regard("evaluate", str(copying), "--json")
    assert (code, json.loads(output)["exact-match"] > 93) == (0, True)


def test_a_text_that_is_no_row_of_bits(regard, copying: Path):
    code, _, errors = regard("predict", str(copying), "01")
    assert (code, len(errors.splitlines())) == (2, 1)
    assert "text 1: '01'; expected vectors of 5 bits" in errors
