"""Logits processors and ends at the limit in every search, and scores as those of the transformers library."""

import math
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import EntryPoint
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.config.loader import Registry
from regard.decoding import processors as processor_names
from regard.decoding import sampling
from regard.decoding import search as search_module
from regard.decoding.beam import Beam
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.processors import Banned, ForceToken, LogitsProcessor, MinimumLength, NoRepeat, RepetitionPenalty
from regard.decoding.search import DecodingConstraints, Search
from regard.errors import InputError
from regard.text.kinds import SPECIAL, SpecialTokens
from tests.decoding.scripted import Language, Scripted, Text, sources

LIMIT = torch.tensor([5, 3, 7])
SEARCHES: list[dict[str, Any]] = [{}, {"beam": 4}, {"temperature": 1.3}]
searches = pytest.mark.parametrize("kind", SEARCHES)


def searched(constraints: DecodingConstraints | None = None, **settings: Any) -> list[Hypothesis]:
    decoder = Scripted(11, Language((4, 5, 6), 11, 1).script)
    found = Search(**settings)(decoder, sources(3), LIMIT, constraints)
    return [best for best, *_ in found]


@searches
def test_no_output_is_shorter_than_the_minimum(kind: dict[str, Any]):
    assert any(len(each.tokens) < 2 for each in searched(**kind))
    for each in searched(min_length=3, **kind):
        assert len(each.tokens) + each.finished >= 3


@searches
def test_no_output_has_a_banned_sequence(kind: dict[str, Any]):
    assert any(set(each.tokens) & {4, 6} for each in searched(min_length=3, **kind))
    for each in searched(min_length=3, banned=((4,), (6,), (5, 5, 5)), **kind):
        assert each.tokens in ((5, 5), (5,), ())


@searches
def test_every_output_begins_with_the_first_token(kind: dict[str, Any]):
    assert {each.tokens[0] for each in searched(first_token=6, **kind)} == {6}


@searches
def test_every_output_ends_at_its_limit(kind: dict[str, Any]):
    language = {"min_length": 9, **kind}  # no end by itself
    assert not any(each.finished for each in searched(**language))
    ended = searched(end_at_limit=True, **language)
    assert [(len(each.tokens), each.finished) for each in ended] == [(4, True), (2, True), (6, True)]


def test_banned_tokens_are_allowed_where_nothing_else_is():
    scores = torch.tensor([[0.5, -math.inf]])
    assert Banned(((0,),))(scores, torch.zeros(1, 0, dtype=torch.long), torch.tensor([0])).tolist() == scores.tolist()


def test_renormalized_scores_share_what_is_forbidden():
    """Padding has most of the probability; without it, one word is as likely as the end."""

    def script(row: int, text: Text) -> list[float]:
        return [5.0, -math.inf, -math.inf, 0.0, 0.0 if not text else -math.inf]

    def best(renormalize: bool) -> Hypothesis:
        return Search(beam=2, renormalize=renormalize)(Scripted(5, script), sources(1), torch.tensor([3]))[0][0]

    assert best(True).score == pytest.approx(math.log(0.5))
    assert best(False).score < -5


def test_a_prompt_neither_costs_nor_counts():
    """The prefix 4 5 as a prompt, of which the search knows that the decoder has read 6 before."""
    prompt = DecodingConstraints(prefixes=((4, 5),), prompts=(2, 2, 2), before=((6,), (6,), (6,)))
    for kind in ({}, {"beam": 3}):
        for one, other in zip(
            searched(prompt, length_penalty=1.0, length_offset=0.0, **kind),
            searched(DecodingConstraints(prefixes=((4, 5),)), **kind),
            strict=True,
        ):
            assert one.tokens[:2] == other.tokens[:2] == (4, 5)
            assert one.score > other.score
    banned = searched(prompt, min_length=2, banned=((4, 5, 6), (6, 4, 5, 5)))
    assert all(each.tokens[2:3] == (4,) for each in banned)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"repetition_penalty": 0.0}, "repetition_penalty is 0.0; it must be above 0"),
        ({"banned": ((),)}, "banned has an empty sequence"),
    ],
)
def test_settings_out_of_range(settings: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        Search(**settings)


def test_an_id_beyond_the_vocabulary():
    with pytest.raises(ValueError, match="the search has the id 11; the vocabulary has 0 to 10"):
        searched(banned=((4, 11),))


LIMITS = torch.tensor([9, 5, 13])
END = SPECIAL.end
SETTINGS: dict[str, dict[str, Any]] = {
    "min_length": {"min_length": 4},
    "banned": {"banned": ((5,), (4, 6))},
    "first_token": {"first_token": 6},
    "end_at_limit": {"end_at_limit": True},
    "repetition_penalty": {"repetition_penalty": 1.7},
    "no_repeat": {"no_repeat": 2},
    "length_penalty": {"length_penalty": 0.8},
    "no-unknown": {"logits_processors": ("no-unknown",)},
}


def decoder() -> Scripted:
    return Scripted(11, Language((4, 5, 6), 11, 1).script)


@pytest.mark.parametrize("name", [name for name in SETTINGS if name != "repetition_penalty"])
def test_a_beam_of_one_is_greedy(name: str):
    """The penalty of repetitions is the exception: of logits in greedy decoding, of log-probabilities in a beam."""
    search = Search(**SETTINGS[name])
    greedy = search(decoder(), sources(3), LIMITS)
    processors = search.processors(search_module.DecodingConstraints(), LIMITS, decoder())
    beam = Beam(1, search.penalty, processors)(decoder(), sources(3), max_length=LIMITS)
    for ours, theirs in zip(greedy, beam, strict=True):
        assert (ours[0].tokens, ours[0].finished) == (theirs[0].tokens, theirs[0].finished)
        assert ours[0].score == pytest.approx(theirs[0].score, abs=1e-5)


@pytest.mark.parametrize("kind", [{}, {"beam": 5}, {"temperature": 1.3}])
@pytest.mark.parametrize("name", SETTINGS)
def test_a_finished_hypothesis_is_never_below_an_unfinished_one(name: str, kind: dict[str, Any]):
    several = 1 if not kind else 4
    search = Search(**SETTINGS[name], **kind)
    found = search(decoder(), sources(3), LIMITS, search_module.DecodingConstraints(several))
    for row in found:
        finished = [each.finished for each in (row[1:] if "temperature" in kind else row)]
        assert finished == sorted(finished, reverse=True)


def theirs(name: str) -> Callable[[Tensor, Tensor], Tensor]:
    processes = pytest.importorskip("transformers.generation.logits_process")
    return {
        "no_repeat": lambda: processes.NoRepeatNGramLogitsProcessor(2),
        "repetition_penalty": lambda: processes.RepetitionPenaltyLogitsProcessor(1.7),
        "banned": lambda: processes.NoBadWordsLogitsProcessor([[5], [4, 6], [7, 8, 9]], eos_token_id=END),
        "min_length": lambda: processes.MinLengthLogitsProcessor(5, torch.tensor([END])),
        "first_token": lambda: processes.ForcedBOSTokenLogitsProcessor(6),
        "end_at_limit": lambda: processes.ForcedEOSTokenLogitsProcessor(5, END),
    }[name]()


OURS: dict[str, LogitsProcessor] = {
    "no_repeat": NoRepeat(2),
    "repetition_penalty": RepetitionPenalty(1.7),
    "banned": Banned(((5,), (4, 6), (7, 8, 9))),
    "min_length": MinimumLength(6),  # with the end, which theirs does not count
    "first_token": ForceToken(6, torch.zeros(7)),
    "end_at_limit": ForceToken(END, torch.full((7,), 3)),
}


@pytest.mark.parametrize("length", [1, 2, 4, 5, 9])
@pytest.mark.parametrize("name", OURS)
def test_scores_are_those_of_the_library(name: str, length: int):
    """Their sequences begin with a start token, ours do not."""
    random = torch.Generator().manual_seed(length)
    scores = torch.randn(7, 11, generator=random)
    tokens = torch.randint(4, 11, (7, length), generator=random)
    begun = tokens if name in ("no_repeat", "repetition_penalty", "banned", "min_length") else None
    if begun is None:
        tokens = tokens[:, 1:]
        begun = torch.cat([torch.full((7, 1), SPECIAL.start), tokens], 1)
    expected = theirs(name)(begun, scores.clone())
    torch.testing.assert_close(OURS[name](scores, tokens, torch.arange(7)), expected)


def only_the_end(special: SpecialTokens, vocabulary: int) -> LogitsProcessor:
    """A processor of another package: everything but the end is banned."""
    return Banned(tuple((each,) for each in range(vocabulary) if each != special.end))


def test_a_processor_of_another_package(monkeypatch: pytest.MonkeyPatch):
    table = Registry("regard.decoding", processor_names.PROCESSORS.locations, "regard.processors")
    point = EntryPoint("only-the-end", f"{__name__}:only_the_end", "regard.processors")
    monkeypatch.setattr(table, "plugins", {"only-the-end": point})
    monkeypatch.setattr(search_module, "PROCESSORS", table)
    assert any(best.tokens for best, *_ in Search()(decoder(), sources(3), LIMITS))
    for kind in (Search(), Search(beam=3), Search(temperature=2.0)):
        found = replace(kind, logits_processors=("only-the-end",))(decoder(), sources(3), LIMITS)
        assert [(best.tokens, best.finished) for best, *_ in found] == [((), True)] * 3


def test_a_processor_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch):
    table = Registry("regard.decoding", {}, "regard.processors")
    monkeypatch.setattr(table, "plugins", {"gone": EntryPoint("gone", "nowhere:gone", "regard.processors")})
    monkeypatch.setattr(search_module, "PROCESSORS", table)
    with pytest.raises(InputError, match=r"regard\.processors 'gone' cannot be imported from nowhere:gone"):
        Search(logits_processors=("gone",))(decoder(), sources(3), LIMITS)


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("settings", [{}, {"min_length": 4}, {"banned": ((4,), (6,))}, {"banned": ((4, 5),)}])
def test_the_kernel_gives_the_texts_of_all_scores(beam: int, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    by_kernel = searched(beam=beam, **settings)
    monkeypatch.setattr(sampling, "supports_logits", lambda logits: False)
    for one, other in zip(by_kernel, searched(beam=beam, **settings), strict=True):
        assert one.tokens == other.tokens
        assert one.score == pytest.approx(other.score, abs=1e-5)
