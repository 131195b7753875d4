"""A stream has the tokens, the scores and the weights of a whole search."""

import pytest
import torch

from regard.attention.record import record
from regard.decoding.hypothesis import LengthPenalty
from regard.decoding.processors import Prefix
from regard.decoding.sampling import Sampler, greedy, sample
from regard.decoding.streaming import StepOptions, stream
from regard.text.kinds import END, START
from tests.decoding.scripted import Language, Scripted, sources
from tests.decoding.test_laws import LIMIT, NAMES, encoded, prepared


@pytest.mark.parametrize("name", NAMES)
def test_a_stream_is_what_greedy_finds(name: str):
    """Each row's weights are those of one pass over the finished text."""
    encoder, decoder = prepared(name)
    memory, penalty = encoded(encoder), LengthPenalty(0.7)
    rows = len(memory.value)
    limit = torch.tensor([LIMIT - row % 3 for row in range(rows)])
    options = StepOptions(decoder, decoder.source_attention, candidates=3)
    steps = list(stream(decoder, memory, options, max_length=limit, penalty=penalty))
    expected = greedy(decoder, memory, max_length=limit, penalty=penalty)
    for row, (hypothesis,) in enumerate(expected):
        mine = [each for each in steps if each.row == row]
        assert [each.hypothesis for each in mine] == [None] * (len(mine) - 1) + [hypothesis]
        tokens = mine[-1].tokens
        assert [each.tokens for each in mine] == [tokens[: place + 1] for place in range(len(tokens))]
        assert [each.candidates[0][0] for each in mine] == tokens
        assert [each.candidates[0][1] for each in mine] == [each.log_probability for each in mine]
        assert mine[-1].score == pytest.approx(sum(each.log_probability for each in mine), rel=1e-5)
        if decoder.source_attention is None:
            assert all(each.attention is None for each in mine)
            continue
        with record(decoder, only=decoder.source_attention) as maps:
            given = torch.tensor([[START, *tokens[:-1]]])
            decoder.features(given, decoder.start(memory.select(torch.tensor([row]))))
        found = torch.stack([torch.from_numpy(each.attention) for each in mine if each.attention is not None], 2)
        torch.testing.assert_close(found, maps.stack_layers()[0], rtol=1e-5, atol=1e-5)


def test_steps_come_in_the_order_of_their_rows():
    decoder = Scripted(11, Language((4, 5, 6), 11, 3).script)
    steps = list(stream(decoder, sources(5), StepOptions(decoder), max_length=4))
    places = [(len(each.tokens), each.row) for each in steps]
    assert places == sorted(places)
    assert {each.row for each in steps} == set(range(5))


def test_a_row_that_is_not_active_is_dropped():
    """One row is dropped after its second token, one before its first; the others are as if all went on."""
    language, seen = Language((4, 5, 6), 11, 3), [0] * 5

    def active(row: int) -> bool:
        return row != 2 and not (row == 3 and seen[3] == 2)

    decoder = Scripted(11, language.script)
    kept = []
    for each in stream(decoder, sources(5), StepOptions(decoder, active=active), max_length=6):
        seen[each.row] += 1
        kept.append(each)
    whole = Scripted(11, language.script)
    everything = list(stream(whole, sources(5), StepOptions(whole), max_length=6))
    assert seen[2:4] == [0, 2]
    assert len([each for each in everything if each.row == 3]) > 2
    for row in (0, 1, 4):
        assert [e.tokens for e in kept if e.row == row] == [e.tokens for e in everything if e.row == row]
    assert decoder.rows[0] == 4
    assert decoder.rows[2] < whole.rows[2]


def test_sampling_and_rules_are_those_of_sample():
    language, prefixes = Language((4, 5, 6), 11, 4), [(5, 5), (), (6,)]

    def sampler() -> Sampler:
        return Sampler(1.3, generator=torch.Generator().manual_seed(7))

    decoder = Scripted(11, language.script)
    steps = stream(
        decoder, sources(3), StepOptions(decoder), max_length=6, choose=sampler(), processors=[Prefix(prefixes)]
    )
    found = {each.row: each.hypothesis for each in steps if each.hypothesis is not None}
    expected = sample(Scripted(11, language.script), sources(3), sampler(), max_length=6, processors=[Prefix(prefixes)])
    assert [found[row] for row in range(3)] == [one for (one,) in expected]
    assert all(found[row].tokens[: len(prefix)] == prefix for row, prefix in enumerate(prefixes))


def test_impossible_tokens_are_no_candidates():
    decoder = Scripted(11, Language((4, 5), 11, 1).script)
    (first, *_) = stream(decoder, sources(1), StepOptions(decoder, candidates=9), max_length=3)
    assert {token for token, _ in first.candidates} == {4, 5, END}
