"""What an evaluation says beside its figures: which examples are scored, by which search, in which units."""

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from regard.cli.main import main
from regard.decoding.search import Search
from regard.errors import InputError
from regard.metrics import ERROR_RATES, METRICS, describe_units
from regard.tasks.options import EvaluationOptions
from regard.tasks.run import Run, describe_examples, describe_search

DATES = str(Path(__file__).parents[1] / "data" / "runs" / "dates")


def data(test: str | None = None, count: int = 0) -> Any:
    valid = SimpleNamespace(valid=["v"] * 1200)
    return SimpleNamespace(
        train="a.csv", valid=None, test=test, split_seed=7, tests=lambda: ["t"] * count, load=lambda: valid
    )


class CountingRun(Run[str, Any]):
    """A run whose metric is the number of examples."""

    supports = {"evaluate": frozenset()}  # noqa: RUF012
    data_hint = "give files"

    def __init__(self, section: Any) -> None:
        self.config, self.model = SimpleNamespace(data=section), None

    def parse(self, line: str, place: str = "text 1") -> str:
        return line

    def compute_metrics(self, examples: Any, options: EvaluationOptions) -> dict[str, float]:
        return {"count": float(len(examples))}


def test_the_test_set_or_the_validation_examples_are_scored(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "regard")
    assert CountingRun(data("test.csv", 13)).evaluate() == {"count": 13}
    assert CountingRun(data()).evaluate() == {"count": 1200}
    assert CountingRun(data()).evaluate(["x"]) == {"count": 1}
    assert caplog.messages == [
        "scored: 13 examples, test.csv",
        "there is no test set: scored on the validation examples, which chose the checkpoint; new ones are fairer",
        "scored: 1,200 examples, held out of a.csv by data.split_seed 7",
    ]
    with pytest.raises(InputError, match="no examples are given; give files"):
        CountingRun(data()).evaluate([])


def test_a_running_text_is_not_counted_and_languages_are_counted_once():
    assert describe_examples(["all of it"], "text.txt") == "scored: text.txt"
    assert describe_examples([1, 2], "letters", "images") == "scored: 2 images, letters"
    assert describe_examples({"de": [1, 2], "fr": [3, 4]}, "three.csv") == "scored: 2 examples, three.csv"


def test_the_search_of_an_evaluation():
    run = SimpleNamespace(
        config=SimpleNamespace(search=Search(beam=4, length_penalty=0.6)), supports={"evaluate": {"beam"}}
    )
    assert describe_search(run, EvaluationOptions()) == "decoding: beam 4, length penalty 0.6"
    assert describe_search(run, EvaluationOptions(beam=1)) == "decoding: greedy"
    assert describe_search(SimpleNamespace(supports={"evaluate": {"files"}}), EvaluationOptions()) is None


def test_every_metric_has_a_unit():
    assert describe_units([*METRICS, *ERROR_RATES]).count(":") == 4
    assert describe_units(["accuracy", "accuracy/de", "of-my-own", "f1", "loss"]) == (
        "accuracy, f1: in per cent, higher is better; loss: the mean negative log-probability of a token, lower is "
        "better"
    )
    assert describe_units(["of-my-own"]) == ""


def test_the_command_says_what_it_scored(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for name, lines in (("source", "14 July 1989\n5 May 2001\n"), ("target", "1989-07-14\n2001-05-05\n")):
        (tmp_path / name).write_text(lines, encoding="utf-8")
    assert main(["evaluate", DATES, str(tmp_path / "source"), str(tmp_path / "target"), "--beam", "3"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("exact-match")
    assert f"regard: scored: 2 examples, {tmp_path / 'source'}, {tmp_path / 'target'}\n" in err
    assert "regard: decoding: beam 3" in err
    assert "regard: exact-match: in per cent, higher is better\n" in err
