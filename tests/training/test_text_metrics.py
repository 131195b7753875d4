"""The figures of texts: against sacreBLEU, and by hand."""

import logging

import pytest
import sacrebleu

from regard.metrics.text import METRICS, TextMetricName

OUTPUTS = ["the cat sat on the mat .", "A dog ran !", "", "Größe und Länge"]
REFERENCES = ["The cat sat on a mat .", "a dog ran fast!", "something", "Größe und Länge"]
OTHERS = ["the cat sat on the mat.", "A dog ran!", "anything", None]
EACH = [[one] if other is None else [one, other] for one, other in zip(REFERENCES, OTHERS, strict=True)]


def single(texts: list[str]) -> list[list[str]]:
    return [[text] for text in texts]


@pytest.mark.parametrize("name", ["bleu", "chrf"])
def test_corpus_metrics_equal_sacrebleu(name: TextMetricName):
    measure = {"bleu": sacrebleu.corpus_bleu, "chrf": sacrebleu.corpus_chrf}[name]
    assert METRICS[name](OUTPUTS, single(REFERENCES)) == measure(OUTPUTS, [REFERENCES]).score
    several = METRICS[name](OUTPUTS, EACH)
    assert several == measure(OUTPUTS, [REFERENCES, OTHERS]).score  # pyright: ignore[reportArgumentType]
    assert METRICS[name](OUTPUTS, single(REFERENCES)) < several < 100


def test_metrics_by_hand():
    """n-gram precisions 4/5, 3/4, 2/3 and 1/2 multiply to 1/5, at equal length; 1 of 4 texts is equal."""
    assert METRICS["exact-match"](OUTPUTS, single(REFERENCES)) == 25.0
    assert METRICS["exact-match"](["b"], [["a", "b"]]) == 100
    assert {name: metric([], []) for name, metric in METRICS.items()} == dict.fromkeys(METRICS, 0.0)
    assert METRICS["bleu"](["a b c d e"], [["a b c d f"]]) == pytest.approx(100 * 0.2**0.25)
    assert METRICS["bleu"](["a b c d"], [["A B C D"]]) == 0.0
    assert METRICS["chrf"](["abcdefg"], [["hijklmn"]]) == 0.0


def test_answers_by_hand():
    """In lower case, without articles and punctuation: 2 of 3 and 2 of 2 words in common give 4 of 5."""
    equal, overlap = METRICS["squad-exact-match"], METRICS["squad-f1"]
    assert equal(["The Denver Broncos!"], [["denver broncos"]]) == overlap(
        ["The Denver Broncos!"], [["broncos denver"]]
    )
    assert equal(["broncos denver"], [["denver broncos"]]) == 0
    assert overlap(["a Denver Broncos team"], [["the Denver  Broncos"]]) == pytest.approx(80)
    assert overlap(["x", "the"], [["y", "x"], ["a"]]) == 100
    assert overlap(["x", ""], [["y"], ["x"]]) == 0


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_of_equal_texts_is_100_and_ciders_ten_times_that(name: TextMetricName):
    best = 1000.0 if name == "cider" else 100.0
    assert METRICS[name](REFERENCES[:2], single(REFERENCES[:2])) == pytest.approx(best)


@pytest.mark.parametrize("name", METRICS)
def test_metrics_want_an_output_for_each_reference(name: TextMetricName):
    with pytest.raises(ValueError, match=r"zip|one each"):
        METRICS[name](["a"], [["a"], ["b"]])


def test_the_level_of_sacrebleus_log_stays():
    log = logging.getLogger("sacrebleu")
    before = log.level
    assert METRICS["bleu"](["a b c d ."], [["a b c d ."]]) == pytest.approx(100)
    assert log.level == before
