"""Continuations of prompts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from regard.attention.memory import Memory
from regard.decoding.banned_texts import BannedTexts
from regard.decoding.constrained_beam import missing
from regard.decoding.constraints import DecodingConstraints, check_phrases, writable
from regard.decoding.continuation import Before, Prompted
from regard.decoding.hypothesis import Hypothesis
from regard.tasks.options import PredictOptions
from regard.tasks.prediction import ShortRepr, TextPrediction, flat, ranked
from regard.text import Tokenizer


@dataclass(frozen=True, eq=False)
class Begun:
    """Prompts for a search: the decoder with the prompts as context, an empty memory for each, the limit of tokens of
    each, the number of tokens `read` in the first pass, and the `rest`, which is forced."""

    decoder: Prompted
    nothing: Memory
    limit: Tensor
    read: int
    rest: tuple[tuple[int, ...], ...]

    def constraints(
        self,
        n_best: int,
        tokenizer: Tokenizer,
        options: PredictOptions,
        prefix: tuple[int, ...] = (),
    ) -> DecodingConstraints:
        """`n_best` continuations of each prompt that begin with the `prefix`, with the phrases and without the banned
        texts of `options`. The tokens of prompts cost nothing. Raises InputError for an empty text."""
        before = self.decoder.prompts.tolist()
        check_phrases(options.phrases)
        return DecodingConstraints(
            n_best,
            tuple((*rest, *prefix) for rest in self.rest),
            (tuple(writable(tokenizer, phrase) for phrase in options.phrases),),
            before=tuple(tuple(each) for each in before),
            prompts=tuple(len(rest) for rest in self.rest),
            banned=BannedTexts.of(tokenizer, options.banned)
            if options.banned
            else None,
        )


@dataclass(frozen=True, repr=False)
class NextToken(TextPrediction):
    """The most probable token after a text."""

    def lines(self) -> list[str]:
        """The token with what it is, since many a token is a single letter."""
        return [f"next token: {flat(self.text)}"]


@dataclass(frozen=True, repr=False)
class Continuation(ShortRepr):
    """A prompt and the text that follows it, whose `tokens` are readable pieces, END included if it is `finished`.
    `ids` are theirs. `score` is a log-probability, divided by the length penalty if the search has one. `alternatives`
    are the next best. `missing` are the phrases that it lacks at its limit."""

    prompt: str
    text: str
    score: float
    finished: bool
    tokens: tuple[str, ...]
    alternatives: tuple["Continuation", ...] = ()
    missing: tuple[str, ...] = ()
    ids: tuple[int, ...] = ()

    def lines(self) -> list[str]:
        """The prompt with its continuation."""
        return f"{self.prompt}{self.text}".split("\n")

    @classmethod
    def ranked(
        cls,
        prompt: str,
        found: Sequence[Hypothesis],
        forced: int,
        tokenizer: Tokenizer,
        options: PredictOptions,
    ) -> "Continuation":
        """The best of the hypotheses, with others of `n_best` different texts as alternatives; as `of`."""
        return ranked(
            [
                cls.of(prompt, each, forced, tokenizer, options.phrases)
                for each in found
            ],
            options.n_best,
        )

    @classmethod
    def of(
        cls,
        prompt: str,
        found: Hypothesis,
        forced: int,
        tokenizer: Tokenizer,
        phrases: Sequence[str] = (),
    ) -> "Continuation":
        """The continuation of a hypothesis, whose first `forced` tokens belong to the prompt."""
        new = found.tokens[forced:]
        ends = (tokenizer.special.end,) if found.finished else ()
        text = behind(prompt, new, tokenizer)
        lacks = tuple(
            phrase for phrase in phrases if missing(new, tokenizer.encode(phrase))
        )
        ids = (*new, *ends)
        pieces = tuple(tokenizer.pieces(ids))
        return cls(
            prompt, text, found.score, found.finished, pieces, missing=lacks, ids=ids
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "prompt": self.prompt,
            "text": self.text,
            "score": self.score,
            "finished": self.finished,
            "tokens": list(self.tokens),
            "alternatives": [each.to_json() for each in self.alternatives],
        }


def behind(prompt: str, tokens: Sequence[int], tokenizer: Tokenizer) -> str:
    """The text of the tokens that follow a prompt, with the blank between them if any."""
    begun = tokenizer.encode(prompt)
    whole, before = tokenizer.decode([*begun, *tokens]), tokenizer.decode(begun)
    return (
        whole.removeprefix(before)
        if whole.startswith(before)
        else tokenizer.decode(tokens)
    )


def begun_ids(text: str, tokenizer: Tokenizer, before: Before) -> list[int]:
    """The ids of a text with the token `before` it; an empty text always has one."""
    ids, special = tokenizer.encode(text), tokenizer.special
    if before == "nothing" and ids:
        return ids
    return [special.start if before == "start" else special.end, *ids]
