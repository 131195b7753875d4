"""Constraints on outputs: a prefix, required phrases and banned texts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.data.tokens import Tokenizers
from regard.decoding.beam import missing
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.processors import LogitsProcessor, forbid
from regard.errors import InputError
from regard.text import Tokenizer
from regard.text.special import REPLACEMENT

MARGIN = 16
"""Tokens that are decoded before the last ones, so that the first of these have their blanks."""


@dataclass(frozen=True, eq=False)
class BannedTexts(LogitsProcessor):
    """Forbid every token that would complete one of the `texts`.

    If all other tokens are forbidden, they are allowed.

    inside: the tokens that contain one of the texts. partial: the tokens that may end a
    character of several bytes. starts: the end of a text -> the tokens that begin with
    it. owns: words of each source that follow the vocabulary; none if it is empty.
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
        """Return the texts in a tokenizer's vocabulary.

        Raises:
            InputError: A text of blanks only.
        """
        if blank := [text for text in texts if not text.strip()]:
            raise InputError(
                f"a banned text is {blank[0]!r}; give at least one character that is no blank"
            )
        surfaces = _surfaces(tokenizer)
        rests = {text[at:] for text in texts for at in range(1, len(text))}
        starts = {
            ending: frozenset(
                token
                for token, surface in enumerate(surfaces)
                if surface.lstrip(" ").startswith(ending.lstrip())
            )
            for ending in rests
        }
        inside = frozenset(
            token
            for token, surface in enumerate(surfaces)
            if any(text.strip() in surface for text in texts)
        )
        partial = frozenset(
            token for token, surface in enumerate(surfaces) if REPLACEMENT in surface
        )
        return cls(tokenizer, tuple(texts), inside, partial, starts, owns)

    def rows(self, rows: Sequence[int]) -> "BannedTexts":
        """Return the same texts for the sources `rows`."""
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
            before = self._decode(recent, source)
            for candidate in self._candidates(before, scores.shape[1]):
                if possible[row, candidate] and self._completes(
                    before, self._decode([*recent, candidate], source)
                ):
                    forbidden[row, candidate] = True
        return forbid(scores, forbidden)

    def _decode(self, tokens: Sequence[int], source: int) -> str:
        return self.tokenizer.decode(tokens, self.owns[source] if self.owns else ())

    def _candidates(self, before: str, vocabulary: int) -> set[int]:
        """Return the tokens that may complete a text behind `before`.

        Decoding may have dropped a blank at its end.
        """
        tokens = {*self.inside, *range(self.tokenizer.size, vocabulary)}
        for text in self.texts:
            for at in range(1, len(text)):
                if before.endswith(text[:at]) or f"{before} ".endswith(text[:at]):
                    tokens |= self.starts[text[at:]]
        if before.endswith(REPLACEMENT):
            tokens |= self.partial
        return {token for token in tokens if token < vocabulary}

    def _completes(self, before: str, after: str) -> bool:
        """Return whether a text ends behind what `before` has for certain."""
        certain = len(before.rstrip(f" {REPLACEMENT}"))
        return any(
            text in after[max(0, certain - len(text) + 1) :] for text in self.texts
        )


def _surfaces(tokenizer: Tokenizer) -> list[str]:
    """Return the text of each token behind another one, with the blank between them."""
    texts = [tokenizer.decode([token]) for token in range(tokenizer.size)]
    anchor = next(
        (
            token
            for token, text in enumerate(texts)
            if text.isascii() and text.isalnum()
        ),
        0,
    )
    start = len(texts[anchor])
    return [
        tokenizer.decode([anchor, token])[start:] for token in range(tokenizer.size)
    ]


Tokens = tuple[int, ...]
CLOSED = "not in the target's vocabulary"
OPEN = "neither in the vocabulary nor in the text"


@dataclass(frozen=True)
class DecodingConstraints:
    """Require `n_best` outputs of each row that begin with the row's prefix and contain all its phrases.

    `prefixes` and `phrases` have one entry for all rows, or one for each.

    before: tokens of each row that the decoder has read before the search, all of one
    length; none if it is empty. prompts: the number of tokens of each row's prefix that
    belong to its prompt; none if it is empty. banned: the texts that no output
    contains, behind its prefix.
    """

    n_best: int = 1
    prefixes: tuple[Tokens, ...] = ((),)
    phrases: tuple[tuple[Tokens, ...], ...] = ((),)
    before: tuple[Tokens, ...] = ()
    prompts: tuple[int, ...] = ()
    banned: BannedTexts | None = None

    def prefixes_of(self, rows: int) -> Sequence[Tokens]:
        """Return the prefix of each row."""
        return self.prefixes * rows if len(self.prefixes) == 1 else self.prefixes

    def phrases_of(self, rows: int) -> Sequence[tuple[Tokens, ...]]:
        """Return the phrases of each row."""
        return self.phrases * rows if len(self.phrases) == 1 else self.phrases

    def with_prefixes(self, prefixes: tuple[Tokens, ...]) -> "DecodingConstraints":
        """Return the same constraints with a prefix for each row."""
        return replace(self, prefixes=prefixes)

    def of(self, rows: Sequence[int]) -> "DecodingConstraints":
        """Return the constraints of the rows `rows`."""
        count = max(rows, default=-1) + 1
        prefixes, phrases = self.prefixes_of(count), self.phrases_of(count)
        return DecodingConstraints(
            self.n_best,
            tuple(prefixes[row] for row in rows),
            tuple(phrases[row] for row in rows),
            tuple(self.before[row] for row in rows if self.before),
            tuple(self.prompts[row] for row in rows if self.prompts),
            None if self.banned is None else self.banned.rows(rows),
        )

    def check(self, limits: Sequence[int]) -> None:
        """Check the arguments.

        Raises:
            ValueError: The constraints of a row need more tokens, the end included,
                than its limit.
        """
        rows = len(limits)
        prompts = self.prompts or (0,) * rows
        parts = zip(
            self.prefixes_of(rows), self.phrases_of(rows), prompts, limits, strict=True
        )
        for prefix, phrases, prompt, limit in parts:
            outside = {phrase for phrase in phrases if missing(prefix[prompt:], phrase)}
            needed = len(prefix) + sum(map(len, outside)) + 1
            if needed <= limit:
                continue
            raise ValueError(
                f"prefix and phrases need {needed} tokens with the end of the text, more than the limit of {limit}; "
                "require less, or raise length_ratio or length_extra"
            )


def encode_constraints(
    tokenizers: Tokenizers,
    texts: Sequence[str],
    n_best: int,
    prefix: str,
    phrases: Sequence[str] = (),
    banned: Sequence[str] = (),
) -> DecodingConstraints:
    """Encode a prefix and phrases for the outputs of some texts, and the texts `banned` from them.

    If the model copies, they may also contain words of each text.

    Raises:
        InputError: The prefix or a phrase has tokens that no output can have, or a
            phrase or banned text is empty.
    """
    owns = [tokenizers.own_words(text) for text in texts] if tokenizers.copying else []
    forbid = BannedTexts.of(tokenizers.target, banned, owns) if banned else None
    return replace(_require(tokenizers, texts, n_best, prefix, phrases), banned=forbid)


def _require(
    tokenizers: Tokenizers,
    texts: Sequence[str],
    n_best: int,
    prefix: str,
    phrases: Sequence[str],
) -> DecodingConstraints:
    """Return the prefix and the phrases of `encode_constraints`."""
    check_phrases(phrases)
    required, target = (prefix, *phrases), tokenizers.target
    if not tokenizers.copying or not any(required):
        encoded = [
            _writable(target, phrase, target.encode(phrase), CLOSED)
            for phrase in required
        ]
        return DecodingConstraints(n_best, (encoded[0],), (tuple(encoded[1:]),))
    rows = [
        [
            _writable(
                target,
                phrase,
                tokenizers.target_ids(phrase, text),
                OPEN,
                f"text {number}: ",
            )
            for phrase in required
        ]
        for number, text in enumerate(texts, 1)
    ]
    return DecodingConstraints(
        n_best, tuple(row[0] for row in rows), tuple(tuple(row[1:]) for row in rows)
    )


def check_phrases(phrases: Sequence[str]) -> None:
    """Check the arguments.

    Raises:
        InputError: An empty phrase.
    """
    if blank := [phrase for phrase in phrases if not phrase.strip()]:
        raise InputError(f"a phrase is {blank[0]!r}; give at least one word")


def encode_prefix(tokenizers: Tokenizers, text: str, prefix: str) -> Tokens:
    """Encode the prefix of the output for one text.

    Raises:
        InputError: As `encode_constraints`.
    """
    return encode_constraints(tokenizers, [text], 1, prefix).prefixes[0]


def writable(tokenizer: Tokenizer, text: str) -> Tokens:
    """Encode the beginning or continuation of an output.

    Raises:
        InputError: A text outside the vocabulary.
    """
    return _writable(tokenizer, text, tokenizer.encode(text), CLOSED)


def _writable(
    tokenizer: Tokenizer, text: str, ids: Sequence[int], problem: str, place: str = ""
) -> Tokens:
    """Return the ids as a tuple.

    Raises:
        InputError: One of them is the unknown token.
    """
    if tokenizer.special.unknown in ids:
        raise InputError(
            f"{place}{text!r} has pieces that are {problem}, so no output has it"
        )
    return tuple(ids)


def lacks(
    tokenizers: Tokenizers,
    text: str,
    hypotheses: Sequence[Hypothesis],
    phrases: Sequence[str],
) -> list[tuple[str, ...]]:
    """Return the phrases missing from each output for a text."""
    ids = {phrase: tokenizers.target_ids(phrase, text) for phrase in phrases}
    return [
        tuple(phrase for phrase in ids if missing(hypothesis.tokens, ids[phrase]))
        for hypothesis in hypotheses
    ]
