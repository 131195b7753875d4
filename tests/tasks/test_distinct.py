"""Predictions of one example have different texts, although a search finds one text in several segmentations."""

import logging

import pytest

from regard.metrics import METRICS
from regard.tasks.options import PredictOptions
from tests.attribution.untrained import TEXT, going_on, writing


def texts(found) -> list[str]:
    """Those of a prediction and its alternatives, best first."""
    return [each.text for each in (found, *found.alternatives)]


def test_n_best_predictions_have_different_texts():
    run = writing()
    (best,) = run.predict([TEXT], PredictOptions(beam=16))
    (found,) = run.predict([TEXT], PredictOptions(beam=16, n_best=16))
    (four,) = run.predict([TEXT], PredictOptions(beam=16, n_best=4))
    assert 4 <= len(texts(found)) == len(set(texts(found))) < 16
    assert texts(four) == texts(found)[:4]
    assert best.text == found.text


def test_sampled_continuations_have_different_texts():
    run = going_on()
    (found,) = run.predict(["the cat"], PredictOptions(n_best=30, temperature=1.0, seed=1, tokens=1))
    assert len(texts(found)) == len(set(texts(found))) < 30


def test_sacrebleu_logs_no_warning(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING):
        METRICS["bleu"](["a cat ."] * 100, [["a cat ."]] * 100)
    assert not caplog.messages
