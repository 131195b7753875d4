"""The coverage and the brevity penalty: their formulas, and their values for hypotheses of a search."""

import math

import pytest
import torch

from regard.attention.record import record
from regard.decoding import Beam, BrevityPenalty, CoveragePenalty, LengthPenalty, greedy
from regard.decoding.hypothesis import LEAST
from regard.decoding.search import Search
from regard.text.special import END, START
from tests.decoding.scripted import sources, spell
from tests.decoding.test_laws import LIMIT, encoded, prepared
from tests.laws import cases


def test_by_hand():
    read = torch.tensor([0.5, 1.0, 1.7, 0.25])
    assert CoveragePenalty(2.0)(read) == pytest.approx(2 * (math.log(0.5) + math.log(0.25)))
    assert CoveragePenalty(0.3)(torch.tensor([0.0, 3.0])) == pytest.approx(0.3 * math.log(LEAST), rel=1e-5)
    assert CoveragePenalty(1.0)(torch.ones(0)) == 0


@pytest.mark.parametrize("name", ["bahdanau", "luong-general", "one-pass", "transformer", "bahdanau-coverage"])
def test_scores_are_those_of_a_second_reading(name: str):
    """Every hypothesis is read again, alone: log-probability and weights by teacher forcing, then the formula."""
    encoder, decoder = prepared(name)
    memory, length, coverage = encoded(encoder), LengthPenalty(0.7), CoveragePenalty(0.4)
    found = Beam(3, length, coverage)(decoder, memory, max_length=LIMIT, n_best=3)
    assert memory.mask is not None
    assert decoder.source_attention is not None
    readable = memory.mask.readable()
    assert readable is not None
    for row, hypotheses in enumerate(found):
        alone = memory.select(torch.tensor([row]))
        real = readable[row]
        for each in hypotheses:
            tokens = [*each.tokens, END] if each.finished else list(each.tokens)
            with record(decoder, only=decoder.source_attention) as maps, torch.no_grad():
                features = decoder.features(torch.tensor([[START, *tokens[:-1]]]), decoder.start(alone))
                scores = decoder.output(features)[0].log_softmax(-1)
            total = float(scores.gather(1, torch.tensor(tokens)[:, None]).sum())
            weights = torch.stack([one.flatten(0, -3).mean(0) for one in maps.values()]).mean(0)
            expected = length(total, len(tokens)) + coverage(weights.sum(0)[real])
            assert each.score == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_it_changes_which_is_best():
    """Of the same hypotheses the order is that of the sums."""
    encoder, decoder = prepared("bahdanau")
    memory = encoded(encoder)
    plain = Beam(5)(decoder, memory, max_length=LIMIT, n_best=5)
    strict = Beam(5, coverage=CoveragePenalty(3.0))(decoder, memory, max_length=LIMIT, n_best=5)
    assert [row[0].tokens for row in plain] != [row[0].tokens for row in strict]
    for row in strict:
        assert row == sorted(row, key=lambda one: (not one.finished, -one.score))


def test_zero_changes_nothing():
    encoder, decoder = prepared("transformer")
    memory = encoded(encoder)
    for one, other in zip(
        Beam(3)(decoder, memory, max_length=LIMIT, n_best=3),
        Beam(3, coverage=CoveragePenalty(0.0))(decoder, memory, max_length=LIMIT, n_best=3),
        strict=True,
    ):
        assert [each.tokens for each in one] == [each.tokens for each in other]
        assert [each.score for each in one] == pytest.approx([each.score for each in other], rel=1e-6)


def test_a_decoder_that_does_not_attend():
    decoder = spell(7, [(4, 5)])
    decoder.source_attention = None
    with pytest.raises(ValueError, match="a coverage penalty needs a model that attends"):
        Beam(2, coverage=CoveragePenalty(1.0))(decoder, sources(1), max_length=5)


def test_brevity_by_hand():
    penalty = BrevityPenalty(2.0, (6.0, 3.0))
    assert penalty(4, 0) == pytest.approx(2 * (1 - 6 / 4))
    assert penalty(4, 1) == penalty(3, 1) == 0
    both = LengthPenalty(1.0, 0.0, penalty)
    assert both(-8.0, 4, 0) == pytest.approx(-2 - 1)
    assert both(-8.0, 4) == -2  # of a text that is long enough


@pytest.mark.parametrize("name", ["luong-general", "transformer"])
def test_brevity_is_added_by_every_search(name: str):
    """To the same hypotheses, from the length of each source without its padding."""
    encoder, decoder = prepared(name)
    memory, lengths = encoded(encoder), cases.sentences().lengths.tolist()
    search = Search(beam=5, length_penalty=0.7, brevity_penalty=3.0, brevity_ratio=2.0)
    penalty = search.length(memory)
    assert penalty.brevity is not None
    assert penalty.brevity.expected == tuple(2.0 * length for length in lengths)
    plain = Beam(5)(decoder, memory, max_length=LIMIT, n_best=5)
    found = Beam(5, penalty)(decoder, memory, max_length=LIMIT, n_best=5)
    assert [row[0] for row in search(decoder, memory, torch.full((len(lengths),), LIMIT))] == [row[0] for row in found]
    common = 0
    for source, row in enumerate(found):
        known = {(each.tokens, each.finished): each.score for each in plain[source]}
        for each in row:
            if (each.tokens, each.finished) in known:
                common += 1
                length = len(each.tokens) + each.finished
                assert each.score == pytest.approx(penalty(known[each.tokens, each.finished], length, source))
    assert common > len(lengths)
    without = greedy(decoder, memory, max_length=LIMIT)
    for source, (best,) in enumerate(greedy(decoder, memory, max_length=LIMIT, penalty=penalty)):
        length = len(best.tokens) + best.finished
        assert best.score == pytest.approx(penalty(without[source][0].score, length, source))
