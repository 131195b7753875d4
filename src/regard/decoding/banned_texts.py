"""Texts that no output contains, in whatever pieces a vocabulary writes them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.decoding.logits_processors import LogitsProcessor, without
from regard.errors import InputError
from regard.text import Tokenizer
from regard.text.special import REPLACEMENT

MARGIN = 16
"""Tokens that are decoded before the last ones, so that the first of these have their blanks."""


@dataclass(frozen=True, eq=False)
class BannedTexts(LogitsProcessor):
    """Forbid every token that would complete one of the `texts`. If all other tokens are forbidden, they are allowed.

    inside: the tokens that contain one of the texts.
    partial: the tokens that may end a character of several bytes.
    starts: the end of a text -> the tokens that begin with it.
    owns: words of each source that follow the vocabulary; none if it is empty.
    """

    tokenizer: Tokenizer
    texts: Sequence[str]
    inside: frozenset[int]
    partial: frozenset[int]
    starts: Mapping[str, frozenset[int]]
    owns: Sequence[Sequence[str]] = ()

    @classmethod
    def of(
        cls,
        tokenizer: Tokenizer,
        texts: Sequence[str],
        owns: Sequence[Sequence[str]] = (),
    ) -> "BannedTexts":
        """The texts in a tokenizer's vocabulary. Raises InputError for a text of blanks only."""
        if blank := [text for text in texts if not text.strip()]:
            raise InputError(
                f"a banned text is {blank[0]!r}; give at least one character that is no blank"
            )
        surfaces = _surfaces(tokenizer)
        rests = {text[at:] for text in texts for at in range(1, len(text))}
        starts = {
            rest: frozenset(
                token
                for token, each in enumerate(surfaces)
                if each.lstrip(" ").startswith(rest.lstrip())
            )
            for rest in rests
        }
        inside = frozenset(
            token
            for token, each in enumerate(surfaces)
            if any(text.strip() in each for text in texts)
        )
        partial = frozenset(
            token for token, each in enumerate(surfaces) if REPLACEMENT in each
        )
        return cls(tokenizer, tuple(texts), inside, partial, starts, owns)

    def rows(self, rows: Sequence[int]) -> "BannedTexts":
        """The same texts for the sources `rows`."""
        return replace(self, owns=tuple(self.owns[row] for row in rows if self.owns))

    def __call__(self, scores: Tensor, tokens: Tensor, sources: Tensor) -> Tensor:
        forbidden = torch.zeros_like(scores, dtype=torch.bool)
        possible = scores > -torch.inf
        for row, (text, source) in enumerate(
            zip(tokens.tolist(), sources.tolist(), strict=True)
        ):
            recent = text[
                max(
                    0,
                    len(text)
                    - max(len(banned.encode()) for banned in self.texts)
                    - MARGIN,
                ) :
            ]
            before = self._decoded(recent, source)
            for candidate in self._candidates(before, scores.shape[1]):
                if possible[row, candidate] and self._completes(
                    before, self._decoded([*recent, candidate], source)
                ):
                    forbidden[row, candidate] = True
        return without(scores, forbidden)

    def _decoded(self, tokens: Sequence[int], source: int) -> str:
        return self.tokenizer.decode(tokens, self.owns[source] if self.owns else ())

    def _candidates(self, before: str, vocabulary: int) -> set[int]:
        """The tokens that may complete a text behind `before`. Decoding may have dropped a blank at its end."""
        found = {*self.inside, *range(self.tokenizer.size, vocabulary)}
        for text in self.texts:
            for at in range(1, len(text)):
                if before.endswith(text[:at]) or f"{before} ".endswith(text[:at]):
                    found |= self.starts[text[at:]]
        if before.endswith(REPLACEMENT):
            found |= self.partial
        return {token for token in found if token < vocabulary}

    def _completes(self, before: str, after: str) -> bool:
        """Whether a text ends behind what `before` has for certain."""
        known = len(before.rstrip(f" {REPLACEMENT}"))
        return any(
            text in after[max(0, known - len(text) + 1) :] for text in self.texts
        )


def _surfaces(tokenizer: Tokenizer) -> list[str]:
    """The text of each token behind another one, with the blank between them."""
    texts = [tokenizer.decode([each]) for each in range(tokenizer.size)]
    anchor = next(
        (each for each, text in enumerate(texts) if text.isascii() and text.isalnum()),
        0,
    )
    start = len(texts[anchor])
    return [tokenizer.decode([anchor, each])[start:] for each in range(tokenizer.size)]
