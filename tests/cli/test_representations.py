"""What a run, a prediction and an attribution show in a session, and the pages of settings."""

from pathlib import Path

import regard
from docs.making.settings import tables
from regard.runs import keys


def test_a_run_and_its_results_are_shown_in_a_line(run: Path):
    model = regard.load(run)
    assert repr(model).startswith("<Seq2SeqRun: seq2seq, Bahdanau, ")
    assert repr(model).endswith(" parameters>")
    (prediction,) = model.predict(["14 July 1989"], n_best=2, beam=2)
    assert repr(prediction).startswith(f"Prediction({prediction.text!r}, score=")
    assert ", 1 alternatives" in repr(prediction)
    assert repr(model.attribute("14 July 1989")).startswith("<Attribution of ")
    for each in (model, prediction, model.attribute("14 July 1989")):
        assert len(repr(each)) < 200


def test_every_key_has_a_row_in_the_page_of_settings():
    text, schema = tables(keys.stored()), keys.stored()
    for name, each in schema["definitions"].items():
        assert f"## {name}\n" in text
        for key in each["properties"]:
            assert f"| `{key}` |" in text
