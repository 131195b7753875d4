"""Metrics against sacreBLEU, against recursive definitions and enumeration, and by hand."""

from functools import cache
from random import Random

import pytest
import sacrebleu

from regard.metrics import (
    ERROR_RATES,
    METRICS,
    TextMetricName,
    bleu_tokenization,
    describe_units,
    edit_distance,
    rouge_l,
    rouge_n,
    split_words,
)

OUTPUTS = ["the cat sat on the mat .", "A dog ran !", "", "Größe und Länge"]
REFERENCES = ["The cat sat on a mat .", "a dog ran fast!", "something", "Größe und Länge"]
SECOND = ["the cat sat on the mat.", "A dog ran!", "anything", None]
BOTH = [[first] if second is None else [first, second] for first, second in zip(REFERENCES, SECOND, strict=True)]


def single(texts: list[str]) -> list[list[str]]:
    return [[text] for text in texts]


@pytest.mark.parametrize("name", ["bleu", "chrf"])
def test_corpus_metrics_equal_sacrebleu(name: TextMetricName):
    measure = {"bleu": sacrebleu.corpus_bleu, "chrf": sacrebleu.corpus_chrf}[name]
    assert METRICS[name](OUTPUTS, single(REFERENCES)) == measure(OUTPUTS, [REFERENCES]).score
    score = METRICS[name](OUTPUTS, BOTH)
    assert score == measure(OUTPUTS, [REFERENCES, SECOND]).score  # pyright: ignore[reportArgumentType]
    assert METRICS[name](OUTPUTS, single(REFERENCES)) < score < 100


def test_bleu_is_tokenized_by_the_script_of_the_references():
    texts = {"13a": "The cat sat on a mat", "zh": "今天天气非常好。", "char": "今日はとても天気がいいです。"}
    for name, text in texts.items():
        assert bleu_tokenization([[text]]) == name
        assert METRICS["bleu"]([text], [[text]]) == pytest.approx(100)
    assert bleu_tokenization([["วันนี้อากาศดีมาก"]]) == "char"
    assert bleu_tokenization([["날씨가 좋다"], ["北京"]]) == "13a"
    expected = sacrebleu.corpus_bleu(["今天天气很好。"], [["今天天气非常好。"]], tokenize="zh").score
    assert METRICS["bleu"](["今天天气很好。"], [["今天天气非常好。"]]) == expected > 0


def test_words_have_letters_marks_and_digits_and_characters_of_scripts_without_spaces():
    assert split_words("Größe_3, cafe\u0301!") == ["größe", "3", "cafe\u0301"]
    assert split_words("हिन्दी भाषा") == ["हिन्दी", "भाषा"]
    assert split_words("北京 2008年") == ["北", "京", "2008", "年"]
    assert rouge_n("今天天气很好", "今天天气不好", 1) == pytest.approx(5 / 6)
    assert METRICS["squad-f1"](["北京。"], [["北京市"]]) == pytest.approx(80)


def test_metrics_by_hand():
    """n-gram precisions 4/5, 3/4, 2/3 and 1/2 multiply to 1/5, at equal length; 1 of 4 texts is equal."""
    assert METRICS["exact-match"](OUTPUTS, single(REFERENCES)) == 25.0
    assert METRICS["exact-match"](["b"], [["a", "b"]]) == 100
    assert {name: metric([], []) for name, metric in METRICS.items()} == dict.fromkeys(METRICS, 0.0)
    assert METRICS["bleu"](["a b c d e"], [["a b c d f"]]) == pytest.approx(100 * 0.2**0.25)
    assert METRICS["bleu"](["a b c d"], [["A B C D"]]) == 0.0
    assert METRICS["chrf"](["abcdefg"], [["hijklmn"]]) == 0.0


def test_rouge_by_hand():
    """5 and 6 words; in common the, the, cat and sat; the pairs the-cat and cat-sat; the cat sat in order."""
    output, reference = "The cat, the cat sat!", "the cat sat on the mat"
    assert rouge_n(output, reference, 1) == pytest.approx(2 * 4 / 11)
    assert rouge_n(output, reference, 2) == pytest.approx(2 * 2 / 9)
    assert rouge_l(output, reference) == pytest.approx(2 * 3 / 11)
    assert METRICS["rouge-2"]([output, "a b"], [[reference], ["c", "a b"]]) == pytest.approx((400 / 9 + 100) / 2)
    for name in ("rouge-1", "rouge-2", "rouge-l"):
        metric = METRICS[name]
        assert metric(["Größe 3 北京"], [["größe, 3: 北京"]]) == 100
        assert metric(["a b"], [["c d"]]) == metric([""], [["c d"]]) == metric(["."], [[""]]) == 0


def test_answers_by_hand():
    """In lower case, without articles and punctuation: 2 of 3 and 2 of 2 words in common give 4 of 5."""
    equal, overlap = METRICS["squad-exact-match"], METRICS["squad-f1"]
    assert equal(["The Denver Broncos!"], [["denver broncos"]]) == 100
    assert overlap(["The Denver Broncos!"], [["broncos denver"]]) == 100
    assert equal(["broncos denver"], [["denver broncos"]]) == 0
    assert overlap(["a Denver Broncos team"], [["the Denver  Broncos"]]) == pytest.approx(80)
    assert overlap(["x", "the"], [["y", "x"], ["a"]]) == 100
    assert overlap(["x", ""], [["y"], ["x"]]) == 0


@pytest.mark.parametrize("name", METRICS)
def test_the_best_score_and_an_output_for_each_reference(name: TextMetricName):
    best = 1000.0 if name == "cider" else 100.0
    assert METRICS[name](REFERENCES[:2], single(REFERENCES[:2])) == pytest.approx(best)
    with pytest.raises(ValueError, match=r"zip|one each"):
        METRICS[name](["a"], [["a"], ["b"]])


def test_edits_are_the_least():
    def by_definition(first: str, second: str, cost: int = 1) -> int:
        @cache
        def distance(i: int, j: int) -> int:
            if not i or not j:
                return i + j
            substitution = distance(i - 1, j - 1) + cost * (first[i - 1] != second[j - 1])
            return min(distance(i - 1, j) + 1, distance(i, j - 1) + 1, substitution)

        return distance(len(first), len(second))

    random = Random(1)
    for _ in range(60):
        first, second = ("".join(random.choices("abc", k=random.randint(0, 7))) for _ in range(2))
        assert edit_distance(first, second) == by_definition(first, second) == edit_distance(second, first)
        assert edit_distance(first, second, substitution=2) == by_definition(first, second, 2)
    assert edit_distance("kitten", "sitting") == 3


def test_error_rates_are_of_all_texts_together():
    words, characters = ERROR_RATES["word-error-rate"], ERROR_RATES["character-error-rate"]
    assert words(["one two", "four four five"], ["one three two", "five"]) == 100 * (1 + 2) / 4
    assert characters(["ab", ""], ["abc", "d"]) == 100 * 2 / 4
    assert words(["a b c"], ["d"]) == 300
    assert words([], []) == words([""], [""]) == 0
    assert words(["a"], [""]) == 100


def test_units_of_metrics_and_their_groups_are_named_once():
    assert describe_units(["bleu", "bleu/plain", "chrf", "mine"]) == "bleu, chrf: from 0 to 100, higher is better"
