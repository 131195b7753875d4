"""A text that has one more token."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from regard.decoding.streaming import Written
from regard.errors import InputError
from regard.text.special import END, PAD, START


def check_prefixes(prefixes: Sequence[Sequence[int]], vocabulary: int) -> None:
    """Raises InputError for tokens that no text has."""
    for token in (token for prefix in prefixes for token in prefix):
        if token in (PAD, START, END) or not 0 <= token < vocabulary:
            raise InputError(f"token {token} is no part of a text; a prefix has tokens of words, below {vocabulary}")


@dataclass(frozen=True)
class Candidate:
    """A token that might stand somewhere, its readable piece, and the probability that the model gives it there."""

    token: int
    piece: str
    probability: float


@dataclass(frozen=True, eq=False)
class StreamEvent:
    """What is written for the `number`-th of some texts, with one more token behind it.

    `text` is all of it so far, and `score` its log-probability, at the end as the search has it; the newest token has
    its readable `piece` and its `log_probability`; `attention (layer, head, key)` says what it was told from, None for
    a model that does not attend; `candidates` are the likeliest tokens at its place. Nothing follows the `last`; the
    text is `finished` if the model ended it.
    """

    number: int
    token: int
    piece: str
    text: str
    score: float
    log_probability: float
    attention: Float[np.ndarray, "layer head key"] | None
    candidates: tuple[Candidate, ...]
    last: bool
    finished: bool

    @classmethod
    def of(cls, each: Written, text: str, piece: Callable[[int], str]) -> "StreamEvent":
        """From what a search has written, the text that it is and what each token is as one."""
        done = each.hypothesis
        return cls(
            each.row,
            each.tokens[-1],
            piece(each.tokens[-1]),
            text,
            each.score if done is None else done.score,
            each.log_probability,
            each.read,
            tuple(Candidate(token, piece(token), math.exp(score)) for token, score in each.candidates),
            done is not None,
            done is not None and done.finished,
        )
