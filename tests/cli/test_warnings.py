"""Input that a model cannot read is predicted for with a warning."""

from pathlib import Path

import pytest

from regard.cli.main import main
from regard.tasks.options import GeneratedText
from regard.tasks.run import output_warnings
from regard.tasks.seq2seq.run import Seq2SeqRun
from regard.tasks.tagging.run import LabeledSpan, TaggingRun, TagsPrediction

DATES = str(Path(__file__).parents[1] / "data" / "runs" / "dates")


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[list[str], list[str]]:
    """The lines of both outputs, without the note that this old run file has an old key."""
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    return out.splitlines(), [line for line in err.splitlines() if "is now named" not in line]


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("", "the text is empty, so the prediction means nothing"),
        ("\u4e2d\u6587 5", "2 of 3 characters of the text are unknown to the model; do not trust it here"),
    ],
)
def test_a_prediction_for_what_cannot_be_read(text: str, warning: str, capsys: pytest.CaptureFixture[str]):
    out, err = printed(capsys, "predict", DATES, "14 July 1989", text)
    assert len(out) == 2
    assert f"regard: text 2: {warning}" in err


def test_what_can_be_read_gets_no_warning(capsys: pytest.CaptureFixture[str]):
    assert printed(capsys, "predict", DATES, "14 July 1989 \u4e2d")[1] == []


@pytest.mark.parametrize("command", ["score", "align"])
def test_a_pair_that_cannot_be_read(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "source").write_text("14 July 1989\n\u4e2d\u6587 5\n", encoding="utf-8")
    (tmp_path / "target").write_text("1989-07-14\n1989-07-14\n", encoding="utf-8")
    sides = ["--source", str(tmp_path / "source"), "--target", str(tmp_path / "target")]
    out, err = printed(capsys, command, DATES, *sides)
    assert len(out) == 2
    [warning] = [line for line in err if "unknown to the model" in line]
    assert "source:2: 2 of 3 characters of the source are unknown to the model; do not trust it here" in warning


class Tagged(TaggingRun):
    """A run of which only the warnings are needed."""

    def __init__(self) -> None:
        pass


@pytest.mark.parametrize(
    ("run", "prediction", "warnings"),
    [
        (Tagged(), TagsPrediction("A b", ()), ["no entity is found: every word has the tag O"]),
        (Tagged(), TagsPrediction("A b", (LabeledSpan(0, 1, "X", "A", 0.5),)), []),
    ],
)
def test_a_prediction_that_shows_nothing_has_a_warning(run, prediction, warnings: list[str]):
    assert run.prediction_warnings(prediction) == warnings


def test_an_empty_prediction_has_a_warning(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Seq2SeqRun, "_predict", lambda self, texts, options: [GeneratedText(" ", 0.0, True, (), None)])
    warning = "regard: text 1: the prediction is empty; if many are, train longer"
    assert printed(capsys, "predict", DATES, "14 July 1989") == ([" "], [warning])


def test_an_output_with_the_unknown_token():
    assert output_warnings("the � sat", "the prediction in de") == [
        "the prediction in de has �, which stands for what the vocabulary lacks (<unk> among its tokens)"
    ]
    assert output_warnings("the cat") == []
    assert output_warnings(" ") == ["the prediction is empty; if many are, train longer"]
