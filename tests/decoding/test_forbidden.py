"""PAD and START are never written, even with the highest logit; every other score stays the model's own."""

import math

import pytest
import torch

from regard.decoding.beam import Beam
from regard.decoding.sampling import Hypothesis, Sampler, greedy, sample
from regard.text.kinds import END, PAD, START
from tests.decoding.scripted import NO, Language, Scripted, Text, sources

LANGUAGE = Language((1, 4, 5, 6), 11, 3)


def fond(row: int, text: Text) -> list[float]:
    """The language, but what it likes best by far is PAD, and then START."""
    logits = LANGUAGE.script(row, text)
    logits[PAD], logits[START] = 7.0, 6.5
    return logits


def searches(seed: int) -> list[list[list[Hypothesis]]]:
    """Greedy, sampled and beam hypotheses of three sources."""
    sampler = Sampler(1.7, generator=torch.Generator().manual_seed(seed))
    return [
        greedy(Scripted(11, fond), sources(3), max_length=5),
        sample(Scripted(11, fond), sources(3), sampler, max_length=5),
        Beam(4)(Scripted(11, fond), sources(3), max_length=5, n_best=4),
    ]


@pytest.mark.parametrize("seed", range(3))
def test_neither_is_written(seed: int):
    for found in searches(seed):
        written = {token for row in found for each in row for token in each.tokens}
        assert written
        assert not written & {PAD, START}


def test_a_score_is_the_model_s_own():
    """Not shared out among the tokens that are left: the same as when the model is made to read the text."""
    for found in searches(1):
        for row, hypotheses in enumerate(found):
            for each in hypotheses:
                wanted = 0.0
                tokens = [*each.tokens, END] if each.finished else list(each.tokens)
                for place, token in enumerate(tokens):
                    logits = torch.tensor(fond(row, each.tokens[:place]))
                    wanted += logits.log_softmax(-1)[token].item()
                assert each.score == pytest.approx(wanted, rel=1e-5)


def test_they_take_no_place_of_a_beam():
    """What is best is the same as for a model that cannot say them."""
    plain = Beam(4)(Scripted(11, LANGUAGE.script), sources(3), max_length=1, n_best=4)
    found = Beam(4)(Scripted(11, fond), sources(3), max_length=1, n_best=4)
    assert [len(row) for row in found] == [4, 4, 4]
    assert [[each.tokens for each in row] for row in found] == [[each.tokens for each in row] for row in plain]


def test_nothing_else_is_possible():
    def script(row: int, text: Text) -> list[float]:
        return [1.0, NO, 0.5, *[NO] * 4] if row == 1 and len(text) == 2 else [NO] * 4 + [1.0, 0.5, NO]

    for search in (
        lambda decoder: greedy(decoder, sources(2), max_length=5),
        lambda decoder: sample(decoder, sources(2), Sampler(), max_length=5),
        lambda decoder: Beam(2)(decoder, sources(2), max_length=5),
    ):
        with pytest.raises(ValueError, match="no token is possible"):
            search(Scripted(7, script))


def test_end_where_nothing_else_is_left():
    """Its score says how little of the whole it has."""
    (found,) = greedy(Scripted(7, lambda row, text: [0.0, NO, 0.0, -1.0, NO, NO, NO]), sources(1), max_length=5)
    assert found[0].tokens == ()
    assert found[0].score == pytest.approx(-1 - math.log(2 + math.exp(-1)))
