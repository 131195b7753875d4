"""ROUGE by hand and by enumeration."""

from itertools import combinations
from random import Random

import pytest

from regard.metrics.rouge import longest_common, rouge_l, rouge_n
from regard.metrics.text import METRICS

OUTPUT, REFERENCE = "The cat, the cat sat!", "the cat sat on the mat"


def test_by_hand():
    """5 and 6 words; in common the, the, cat and sat; the pairs the-cat and cat-sat; the cat sat in order."""
    assert rouge_n(OUTPUT, REFERENCE, 1) == pytest.approx(2 * 4 / 11)
    assert rouge_n(OUTPUT, REFERENCE, 2) == pytest.approx(2 * 2 / 9)
    assert rouge_l(OUTPUT, REFERENCE) == pytest.approx(2 * 3 / 11)
    assert METRICS["rouge-2"]([OUTPUT, "a b"], [[REFERENCE], ["c", "a b"]]) == pytest.approx((400 / 9 + 100) / 2)


@pytest.mark.parametrize("name", ["rouge-1", "rouge-2", "rouge-l"])
def test_limits(name):
    metric = METRICS[name]
    assert metric(["Größe 3 北京"], [["größe, 3: 北京"]]) == 100
    assert metric(["a b"], [["c d"]]) == metric([""], [["c d"]]) == metric(["."], [[""]]) == metric([], []) == 0


def test_the_longest_common_subsequence_by_enumeration():
    random = Random(1)
    for _ in range(50):
        first, second = ("".join(random.choices("abc", k=random.randint(0, 6))) for _ in range(2))
        parts = [{p for size in range(7) for p in combinations(text, size)} for text in (first, second)]
        assert longest_common(first, second) == max(map(len, parts[0] & parts[1]))
