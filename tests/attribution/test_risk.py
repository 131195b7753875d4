"""The least risk among samples."""

import pytest
from sacrebleu.metrics.chrf import CHRF

from regard.decoding.texts import least_risk

TEXTS = ["a dog runs in the snow", "a dog runs in snow", "two cats", "a dog is running in the snow", "two cats"]


def test_the_definition():
    """The mean chrF of each against all, by hand."""
    chrf = CHRF()
    means = [sum(chrf.sentence_score(one, [other]).score for other in TEXTS) / len(TEXTS) for one in TEXTS]
    assert least_risk(TEXTS) == means.index(max(means))


def test_what_was_drawn_more_often_counts_more():
    assert least_risk(["two cats", "a dog", "a dog", "two mice"]) == 1
    assert least_risk(["two cats", "two cats", "a dog", "two cats"]) == 0


def test_one_text_and_none():
    assert least_risk(["alone"]) == 0
    assert least_risk(["", ""]) == 0
    with pytest.raises(ValueError, match="there is no text to choose from"):
        least_risk([])
