"""A beam whose texts contain what they must."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

import torch
from torch import Tensor

from regard.decoding.beam import Beam
from regard.decoding.beam_state import BeamState, Extensions
from regard.decoding.hypothesis import Hypothesis
from regard.text.special import END

Phrase = Sequence[int]


@dataclass(frozen=True)
class ConstrainedBeam(Beam):
    """Every finished text contains all its source's `phrases`, each in one piece: they may overlap. Where texts reach
    their limit before, those come first of which the least is missing.

    Hypotheses are sorted by how many tokens of phrases they have, and take turns in that order, the fullest first, so
    that some of each kind stay (dynamic beam allocation, Post and Vilar 2018, 1804.06609).

    Raises:
        ValueError: a phrase is empty.
    """

    phrases: Sequence[Sequence[Phrase]] = ()

    def __post_init__(self) -> None:
        if any(not len(phrase) for phrases in self.phrases for phrase in phrases):
            raise ValueError("a phrase is empty; give at least one token")

    def choose(self, beam: BeamState, extended: Tensor) -> tuple[Extensions, Extensions]:
        ending, going = [], []
        for row, source in enumerate(beam.sources.tolist()):
            candidates = self.candidates(beam, extended, row, self.phrases[source])
            turns = in_turns(candidates)
            ending.append([each for each in turns[: self.width] if each[2] == END])
            going.append([each for each in turns if each[2] != END][: self.width])
        return table(ending, self.width, extended), table(going, self.width, extended)

    def best(self, source: int, found: list[Hypothesis]) -> list[Hypothesis]:
        """The different texts of a source, those first that lack the fewest tokens of phrases, best first."""

        def lacking(each: Hypothesis) -> int:
            return sum(len(missing(each.tokens, phrase)) for phrase in self.phrases[source])

        return sorted(super().best(source, found), key=lacking)

    def candidates(
        self, beam: BeamState, extended: Tensor, row: int, phrases: Sequence[Phrase]
    ) -> list[tuple[int, float, int, int]]:
        """What may follow a source's texts: tokens of phrases then held, score, place, token. The best of all, the best
        of each text, and every token that brings a phrase on; END only where nothing is missing."""
        scores = extended[row]
        best = Extensions.best(scores[None], 2 * self.width)
        places = set(zip(best.parents[0].tolist(), best.tokens[0].tolist(), strict=True))
        places |= set(enumerate(scores.argmax(-1).tolist()))
        found = []
        for place in range(self.width):
            text = beam.text(row, place)
            wanted = {token for phrase in phrases for token in missing(text, phrase)[:1]}
            whole = not any(missing(text, phrase) for phrase in phrases)
            for token in {token for parent, token in places if parent == place} | wanted:
                score = float(scores[place, token])
                if score > -torch.inf and (token != END or whole):
                    longer = [*text, token]
                    held = sum(len(phrase) - len(missing(longer, phrase)) for phrase in phrases)
                    found.append((held, score, place, token))
        return found


def in_turns(candidates: list[tuple[int, float, int, int]]) -> list[tuple[float, int, int]]:
    """The best of each kind, the second of each, and so on; in each round the fullest first."""
    kinds: dict[int, list[tuple[float, int, int]]] = {}
    for held, score, place, token in sorted(candidates, reverse=True):
        kinds.setdefault(held, []).append((score, place, token))
    return [each for rank in zip_longest(*kinds.values()) for each in rank if each is not None]


def table(chosen: list[list[tuple[float, int, int]]], width: int, like: Tensor) -> Extensions:
    """`width` for each source, best first."""
    nothing = (-torch.inf, 0, END)
    rows = [sorted(each, reverse=True) + [nothing] * (width - len(each)) for each in chosen]
    scores, parents, tokens = (
        torch.tensor([[each[part] for each in row] for row in rows], device=like.device) for part in range(3)
    )
    return Extensions(scores.to(like), parents, tokens)


def missing(text: Sequence[int], phrase: Phrase) -> Phrase:
    """What of the phrase still has to be written: nothing if the text contains it, else what lies behind the longest
    beginning of it with which the text ends."""
    text, phrase = tuple(text), tuple(phrase)
    size = len(phrase)
    if any(text[at : at + size] == phrase for at in range(len(text) - size + 1)):
        return ()
    held = [count for count in range(min(size, len(text)) + 1) if text[len(text) - count :] == phrase[:count]]
    return phrase[max(held) :]
