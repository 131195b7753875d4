"""Word and character error rates against a recursive definition and by hand."""

from functools import cache
from random import Random

from regard.metrics.error_rates import character_error_rate, edits, rate, word_error_rate


def by_definition(one: str, other: str) -> int:
    @cache
    def at(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        return min(at(i - 1, j) + 1, at(i, j - 1) + 1, at(i - 1, j - 1) + (one[i - 1] != other[j - 1]))

    return at(len(one), len(other))


def test_edits_are_the_least():
    random = Random(1)
    for _ in range(60):
        one, other = ("".join(random.choices("abc", k=random.randint(0, 7))) for _ in range(2))
        assert edits(one, other) == by_definition(one, other) == edits(other, one)
    assert edits("kitten", "sitting") == 3


def test_rates_are_of_all_texts_together():
    found, expected = ["one two", "four four five"], ["one three two", "five"]
    assert word_error_rate(found, expected) == 100 * (1 + 2) / 4
    assert character_error_rate(["ab", ""], ["abc", "d"]) == 100 * 2 / 4
    assert word_error_rate(["a b c"], ["d"]) == 300


def test_nothing_expected():
    assert rate([]) == rate([("", "")]) == 0
    assert word_error_rate(["a"], [""]) == 100
