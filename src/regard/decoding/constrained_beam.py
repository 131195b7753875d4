"""Beam search whose outputs contain required phrases."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

import torch
from torch import Tensor

from regard.decoding.beam import Beam
from regard.decoding.beam_state import BeamState, Extensions
from regard.decoding.hypothesis import Hypothesis
from regard.work import checkpoint

Phrase = Sequence[int]


@dataclass(frozen=True)
class ConstrainedBeam(Beam):
    """Dynamic beam allocation (Post and Vilar 2018, 1804.06609): every finished hypothesis contains all `phrases` of
    its source behind its prompt, each contiguous; phrases may overlap. Hypotheses at the length limit are sorted by the
    number of missing phrase tokens, fewest first.

    Candidates are grouped in banks by the number of phrase tokens they contain. Banks fill the beam in turn, the
    fullest bank first.

    Raises:
        ValueError: a phrase is empty.
    """

    phrases: Sequence[Sequence[Phrase]] = ()

    def __post_init__(self) -> None:
        if any(not len(phrase) for phrases in self.phrases for phrase in phrases):
            raise ValueError("a phrase is empty; give at least one token")

    def choose(
        self, beam: BeamState, extended: Tensor
    ) -> tuple[Extensions, Extensions]:
        ending, going = [], []
        for row, source in enumerate(beam.sources.tolist()):
            candidates = self.candidates(beam, extended, row, self.phrases[source])
            ranked = in_banks(candidates)
            ending.append(
                [each for each in ranked[: self.width] if each[2] in beam.special.ends]
            )
            going.append(
                [each for each in ranked if each[2] not in beam.special.ends][
                    : self.width
                ]
            )
        return table(ending, self.width, extended), table(going, self.width, extended)

    def best(self, source: int, found: list[Hypothesis]) -> list[Hypothesis]:
        """The different hypotheses of a source: fewest missing phrase tokens first, then best score."""

        def lacking(each: Hypothesis) -> int:
            written = each.tokens[self.prompt(source) :]
            return sum(len(missing(written, phrase)) for phrase in self.phrases[source])

        return sorted(super().best(source, found), key=lacking)

    def candidates(
        self, beam: BeamState, extended: Tensor, row: int, phrases: Sequence[Phrase]
    ) -> list[tuple[int, float, int, int]]:
        """Candidates of a source: (phrase tokens matched, score, place, token). They are the best of all extensions,
        the best of each hypothesis and every next token of a phrase. END is a candidate only if no phrase is
        missing."""
        scores = extended[row]
        best = Extensions.best(scores[None], (1 + len(beam.special.ends)) * self.width)
        places = set(
            zip(best.parents[0].tolist(), best.tokens[0].tolist(), strict=True)
        )
        places |= set(enumerate(scores.argmax(-1).tolist()))
        found = []
        for place in range(self.width):
            checkpoint()
            text = beam.text(row, place)[self.prompt(int(beam.sources[row])) :]
            following = {
                token for phrase in phrases for token in missing(text, phrase)[:1]
            }
            complete = not any(missing(text, phrase) for phrase in phrases)
            for token in {
                token for parent, token in places if parent == place
            } | following:
                score = float(scores[place, token])
                if score > -torch.inf and (token not in beam.special.ends or complete):
                    longer = [*text, token]
                    matched = sum(
                        len(phrase) - len(missing(longer, phrase)) for phrase in phrases
                    )
                    found.append((matched, score, place, token))
        return found


def in_banks(
    candidates: list[tuple[int, float, int, int]],
) -> list[tuple[float, int, int]]:
    """The best of each bank, then the second of each, and so on; in each round the fullest bank first."""
    banks: dict[int, list[tuple[float, int, int]]] = {}
    for matched, score, place, token in sorted(candidates, reverse=True):
        banks.setdefault(matched, []).append((score, place, token))
    return [
        each
        for rank in zip_longest(*banks.values())
        for each in rank
        if each is not None
    ]


def table(
    chosen: list[list[tuple[float, int, int]]], width: int, like: Tensor
) -> Extensions:
    """The chosen candidates as `width` extensions for each source, best first."""
    nothing = (-torch.inf, 0, 0)
    rows = [
        sorted(each, reverse=True) + [nothing] * (width - len(each)) for each in chosen
    ]
    scores, parents, tokens = (
        torch.tensor([[each[part] for each in row] for row in rows], device=like.device)
        for part in range(3)
    )
    return Extensions(scores.to(like), parents, tokens)


def missing(text: Sequence[int], phrase: Phrase) -> Phrase:
    """The tokens of the phrase that must still follow: none if the text contains it, else those behind the longest
    prefix of the phrase that ends the text."""
    text, phrase = tuple(text), tuple(phrase)
    size = len(phrase)
    if any(text[at : at + size] == phrase for at in range(len(text) - size + 1)):
        return ()
    matched = [
        count
        for count in range(min(size, len(text)) + 1)
        if text[len(text) - count :] == phrase[:count]
    ]
    return phrase[max(matched) :]
