"""Logits processors change scores as those of the transformers library do, and greedy decoding is a beam of one."""

from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import EntryPoint
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.config.registry import Registry
from regard.decoding import processors as processor_names
from regard.decoding import search as search_module
from regard.decoding.beam import Beam
from regard.decoding.processors import (
    Banned,
    EndAtLimit,
    FirstToken,
    LogitsProcessor,
    MinimumLength,
    NoRepeat,
    RepetitionPenalty,
)
from regard.decoding.search import Search
from regard.errors import InputError
from regard.text.special import SPECIAL, SpecialTokens
from tests.decoding.scripted import Language, Scripted, sources

LIMIT = torch.tensor([9, 5, 13])
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
    greedy = search(decoder(), sources(3), LIMIT)
    processors = search.processors(search_module.DecodingConstraints(), LIMIT, decoder())
    beam = Beam(1, search.penalty, processors)(decoder(), sources(3), max_length=LIMIT)
    for ours, theirs in zip(greedy, beam, strict=True):
        assert (ours[0].tokens, ours[0].finished) == (theirs[0].tokens, theirs[0].finished)
        assert ours[0].score == pytest.approx(theirs[0].score, abs=1e-5)


@pytest.mark.parametrize("kind", [{}, {"beam": 5}, {"temperature": 1.3}])
@pytest.mark.parametrize("name", SETTINGS)
def test_a_finished_hypothesis_is_never_below_an_unfinished_one(name: str, kind: dict[str, Any]):
    several = 1 if not kind else 4
    search = Search(**SETTINGS[name], **kind)
    found = search(decoder(), sources(3), LIMIT, search_module.DecodingConstraints(several))
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
    "first_token": FirstToken(6),
    "end_at_limit": EndAtLimit((4,) * 7),
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
    monkeypatch.setattr(table, "plugins", {"only-the-end": [point]})
    monkeypatch.setattr(search_module, "PROCESSORS", table)
    assert any(best.tokens for best, *_ in Search()(decoder(), sources(3), LIMIT))
    for kind in (Search(), Search(beam=3), Search(temperature=2.0)):
        found = replace(kind, logits_processors=("only-the-end",))(decoder(), sources(3), LIMIT)
        assert [(best.tokens, best.finished) for best, *_ in found] == [((), True)] * 3


def test_a_processor_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch):
    table = Registry("regard.decoding", {}, "regard.processors")
    monkeypatch.setattr(table, "plugins", {"gone": [EntryPoint("gone", "nowhere:gone", "regard.processors")]})
    monkeypatch.setattr(search_module, "PROCESSORS", table)
    with pytest.raises(InputError, match=r"regard\.processors 'gone' cannot be imported from nowhere:gone"):
        Search(logits_processors=("gone",))(decoder(), sources(3), LIMIT)
