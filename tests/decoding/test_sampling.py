"""Sampling: the kept tokens, their frequencies, and the same samples from the same generator."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.decoding.sampling import BLOCK, Sampler, best_scores, greedy, sample
from tests.decoding.scripted import NO, Language, Scripted, Text, sources

DRAWS = 20_011
CHANCES = torch.tensor([0.05, 0.4, 0.0, 0.3, 0.15, 0.1])
"""Of the tokens 0 to 5, the largest not first and one impossible."""


def generator(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def frequencies(sampler: Sampler) -> Tensor:
    tokens = sampler(CHANCES.log().expand(DRAWS, -1))
    return tokens.bincount(minlength=len(CHANCES)) / DRAWS


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({}, [0, 1, 3, 4, 5]),
        ({"top_k": 1}, [1]),
        ({"top_k": 3}, [1, 3, 4]),
        ({"top_k": 6}, [0, 1, 3, 4, 5]),
        ({"top_k": 1009}, [0, 1, 3, 4, 5]),
        ({"top_p": 1e-9}, [1]),
        ({"top_p": 0.39}, [1]),
        ({"top_p": 0.41}, [1, 3]),
        ({"top_p": 0.71}, [1, 3, 4]),
        ({"top_p": 0.96}, [0, 1, 3, 4, 5]),
        ({"top_k": 3, "top_p": 0.75}, [1, 3]),
    ],
)
def test_what_is_kept_comes_as_often_as_it_should(settings: dict, kept: list[int]):
    """`top_p` cuts what `top_k` left, renormalised: of 0.4, 0.3, 0.15 the first two make 0.82."""
    expected = torch.zeros_like(CHANCES)
    expected[kept] = CHANCES[kept] / CHANCES[kept].sum()
    found = frequencies(Sampler(generator=generator(), **settings))
    assert torch.equal(found > 0, expected > 0)
    torch.testing.assert_close(found, expected, rtol=0, atol=4 * 0.5 / DRAWS**0.5)


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_temperature_is_a_power_of_the_probabilities(temperature: float):
    expected = CHANCES ** (1 / temperature)
    found = frequencies(Sampler(temperature=temperature, generator=generator()))
    torch.testing.assert_close(found, expected / expected.sum(), rtol=0, atol=4 * 0.5 / DRAWS**0.5)


def random_sampler(seed: int) -> Sampler:
    return Sampler(temperature=1.3, top_k=4, top_p=0.95, generator=generator(seed))


def test_the_same_generator_draws_the_same():
    language = Language((4, 5, 6), 11, 1)
    first, again, other = (
        sample(Scripted(11, language.script), sources(7), random_sampler(seed), max_length=5) for seed in (3, 3, 5)
    )
    assert first == again
    assert first != other


def test_temperature_zero_is_greedy():
    language = Language((4, 5, 6), 11, 1)
    found = sample(Scripted(11, language.script), sources(7), Sampler(0.0, top_k=2, top_p=0.3), max_length=5)
    assert found == greedy(Scripted(11, language.script), sources(7), max_length=5)
    for row, (hypothesis,) in enumerate(found):
        text: Text = ()
        score = 0.0
        for token in (*hypothesis.tokens, *([3] if hypothesis.finished else [])):
            chances = language.log_probabilities(row, text)
            assert token == max(chances, key=chances.__getitem__)
            text, score = (*text, token), score + chances[token]
        assert hypothesis.score == pytest.approx(score, rel=1e-5)


def test_the_score_of_a_sample_is_its_log_probability():
    """Whatever the temperature: scores of samples can be compared with those of a search."""
    language = Language((4, 5, 6), 11, 2)
    for row, (hypothesis,) in enumerate(
        sample(Scripted(11, language.script), sources(5), random_sampler(1), max_length=5)
    ):
        scores = {(text, finished): score for text, score, finished in language.everything(row, 5)}
        assert hypothesis.score == pytest.approx(scores[hypothesis.tokens, hypothesis.finished], rel=1e-5)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("temperature", [-1.0, -1e-9, math.nan, math.inf, -math.inf]),
        ("top_p", [0.0, -0.1, 1.0001, math.nan, math.inf]),
        ("top_k", [-1]),
    ],
)
def test_settings_out_of_range(name: str, values: list[Any]):
    for value in values:
        with pytest.raises(ValueError, match=f"{name} is"):
            Sampler(**{name: value})


@pytest.mark.parametrize("bad", [[NO] * 3, [0.0, math.nan, 1.0], [0.0, math.inf, 1.0]])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_no_token_is_possible(temperature: float, bad: list[float]):
    good = [NO, 0.0, NO]
    assert Sampler(temperature)(torch.tensor([good])).tolist() == [1]
    with pytest.raises(ValueError, match="no token is possible"):
        Sampler(temperature)(torch.tensor([good, bad]))


@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize("choices", [3, 2 * BLOCK, 30 * BLOCK, 30 * BLOCK + 7])
@pytest.mark.parametrize("allowed", [0.01, 1.0])
def test_the_best_scores_are_those_of_topk(count: int, choices: int, allowed: float):
    scores = torch.randn(20, choices).masked_fill(torch.rand(20, choices) > allowed, -torch.inf)
    best, places = best_scores(scores, count)
    assert torch.equal(best, scores.topk(min(count, choices)).values)
    assert torch.equal(best, scores.gather(1, places))
    assert all(len(set(row)) == len(row) for row in places.tolist())
