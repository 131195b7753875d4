"""Rules that models are compared with."""

import math

import pytest
import torch

from benchmarks.rules import END, KneserNey, central, nearest

TEXTS = [["a", "b", "a"], ["b"], ["a", "c", "b", "a"]]
WORDS = ["a", "b", "c", END, "d"]
"""All words of the texts, and one that none has."""


@pytest.mark.parametrize("history", [("a",), ("b",), ("d",)])
def test_probabilities_sum_to_one(history: tuple[str, ...]):
    model = KneserNey(TEXTS, 2, len(WORDS))
    assert sum(model.probability((*history, word)) for word in WORDS) == pytest.approx(1)
    deeper = KneserNey(TEXTS, 3, len(WORDS))
    assert sum(deeper.probability(("a", *history, word)) for word in WORDS) == pytest.approx(1)


def test_a_probability_by_hand():
    """`a` is followed by b, c and twice the end; of the 8 different pairs 2 end in b, 1 each in c and the end."""
    model = KneserNey(TEXTS, 2, 5)
    pairs = {("<s>", "a"), ("<s>", "b"), ("a", "b"), ("b", "a"), ("a", END), ("b", END), ("a", "c"), ("c", "b")}
    single = (sum(pair[1] == "b" for pair in pairs) - 0.75 + 0.75 * 4 / 5) / len(pairs)
    assert model.probability(("a", "b")) == pytest.approx((1 - 0.75 + 0.75 * 3 * single) / 4)


def test_perplexity_of_a_mixture():
    model = KneserNey(TEXTS, 2, 5)
    first, end = model.probability(("<s>", "a")), model.probability(("a", END))
    assert model.perplexity([["a"]]) == pytest.approx(math.exp(-(math.log(first) + math.log(end)) / 2))
    mixed = math.log(0.5 * first + 0.5 * 0.25) + math.log(0.5 * end)
    assert model.perplexity([["a"]], [["a", "b", "b", "b"]], 0.5) == pytest.approx(math.exp(-mixed / 2))
    assert model.perplexity([["a"]], [[]], 0.5) == model.perplexity([["a"]])


def test_the_nearest_row_and_the_most_central_text():
    keys = torch.tensor([[0.0, 0.0], [3.0, 4.0], [10.0, 0.0]])
    assert nearest(torch.tensor([[9.0, 1.0], [2.0, 3.0]]), keys).tolist() == [2, 1]
    assert central(["a dog", "a dog runs", "a dog runs", "the sea"]) == "a dog runs"
