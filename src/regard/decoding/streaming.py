"""Streamed decoding: yield every step of all sequences."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.attention.record import Maps, record
from regard.decoding.hypothesis import (
    Hypothesis,
    LengthPenalty,
    SequenceState,
    max_lengths,
)
from regard.decoding.processors import LogitsProcessor
from regard.decoding.sampling import Sampler
from regard.errors import InputError
from regard.maps.lookups import Patches
from regard.nn.decoders import Decoder
from regard.text.special import SpecialTokens


def always(row: int) -> bool:
    """Continue every sequence to its end."""
    return True


@dataclass(frozen=True)
class StepOptions:
    """The contents of each step, and the sequences to continue.

    model, names: modules of `model` whose weights are recorded; None for none.
    candidates: number of likely tokens to return. active: called with a row before each
    step; a row for which it is false is dropped. begins: the number of tokens of each
    row that belong to its prompt and have no length for the penalty.
    """

    model: nn.Module
    names: str | tuple[str, ...] | None = None
    candidates: int = 0
    active: Callable[[int], bool] = always
    begins: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Step:
    """One more token for a `row` of the memory.

    tokens: all tokens so far, END included. score: log-probability of all tokens.
    log_probability: log-probability of this token. attention: weights `(layer, head,
    key)` with which it was predicted; None without recording. candidates: the likeliest
    tokens at this position with their log-probabilities, best first. hypothesis: the
    whole sequence once it is done.
    """

    row: int
    tokens: list[int]
    score: float
    log_probability: float
    attention: np.ndarray | None
    candidates: list[tuple[int, float]]
    hypothesis: Hypothesis | None


def stream(
    decoder: Decoder,
    memory: Memory,
    options: StepOptions,
    *,
    max_length: int | Tensor,
    choose: Callable[[Tensor], Tensor] | None = None,
    penalty: LengthPenalty | None = None,
    processors: Sequence[LogitsProcessor] = (),
) -> Iterator[Step]:
    """Decode as `greedy`, or as `sample` if `choose` is a `Sampler`, and yield each step.

    Steps of all open sequences come in the order of their rows.

    Args:
        max_length: The maximal number of tokens, the end included: one number, or
            `(batch,)`.

    Raises:
        ValueError: Max_length below 1, or no token can follow a sequence.
    """
    limit = max_lengths(memory, max_length)
    penalty = penalty or LengthPenalty()
    choose = Sampler(temperature=0.0) if choose is None else choose
    with (
        torch.no_grad()
    ):  # never across a yield: it would switch gradients off for the caller
        state = _active(SequenceState.first(decoder, memory, options.begins), options)
    while len(state.rows):
        with torch.no_grad(), _recording(options) as maps:
            state, following = state.step(decoder, choose, processors)
        attention = (
            None
            if maps is None
            else maps.stack_layers()[:, :, :, 0].double().cpu().numpy()
        )
        done = state.done(limit)
        for place, finished in enumerate(done.tolist()):
            yield Step(
                int(state.rows[place]),
                state.tokens[place].tolist(),
                float(state.scores[place]),
                float(following[place, state.tokens[place, -1]]),
                None if attention is None else attention[place],
                _best(following[place], options.candidates),
                state.hypothesis(place, penalty) if finished else None,
            )
        state = _active(state.drop(done), options)


def _active(state: SequenceState, options: StepOptions) -> SequenceState:
    dropped = [not options.active(row) for row in state.rows.tolist()]
    return state.drop(torch.tensor(dropped, dtype=torch.bool, device=state.rows.device))


def _recording(options: StepOptions) -> AbstractContextManager[Maps | None]:
    return (
        nullcontext()
        if options.names is None
        else record(options.model, only=options.names)
    )


def _best(scores: Tensor, count: int) -> list[tuple[int, float]]:
    best, tokens = scores.topk(min(count, len(scores)))
    pairs = zip(tokens.tolist(), best.tolist(), strict=True)
    return [(token, score) for token, score in pairs if score > -torch.inf]


@dataclass(frozen=True)
class Candidate:
    """A possible token at a position, its readable piece, and its probability."""

    token: int
    piece: str
    probability: float


@dataclass(frozen=True, eq=False)
class StreamSource:
    """The source of a streamed output.

    labels: labels of the keys that the first token can read. patches: the image whose
    parts these are, if any. forced: number of tokens that belong to the prefix. growth:
    largest number of own tokens that the output can read as well.
    """

    labels: Sequence[str]
    patches: Patches | None = None
    forced: int = 0
    growth: int = 0


@dataclass(frozen=True, eq=False)
class StreamEvent:
    """One more token of the output for example `number`.

    source: the source of the output, the same in all its events. token, piece,
    log_probability: the newest token, its readable form, and its log-probability. text,
    score: the output so far and its log-probability; at the end the score of the
    search. attention: weights `(layer, head, key)` with which the token was predicted;
    None for a model without attention. candidates: the likeliest tokens at this
    position, best first. last: this is the last event of the output. finished: the
    model ended the output; false if the limit did.
    """

    number: int
    source: StreamSource
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
    def of(
        cls,
        step: Step,
        source: StreamSource,
        text: str,
        pieces: Callable[[list[int]], list[str]],
    ) -> "StreamEvent":
        """Make an event from a step, its source, the text so far, and a function that makes tokens readable."""

        def piece(token: int) -> str:
            return pieces([token])[0]

        done = step.hypothesis
        return cls(
            step.row,
            source,
            step.tokens[-1],
            piece(step.tokens[-1]),
            text,
            step.score if done is None else done.score,
            step.log_probability,
            step.attention,
            tuple(
                Candidate(token, piece(token), math.exp(score))
                for token, score in step.candidates
            ),
            done is not None,
            done is not None and done.finished,
        )


def check_prefixes(
    prefixes: Sequence[Sequence[int]],
    vocabulary: int,
    special: SpecialTokens,
) -> None:
    """Check the arguments.

    Raises:
        InputError: Tokens that no output contains, for a vocabulary of this size
            with these special ids.
    """
    for token in (token for prefix in prefixes for token in prefix):
        if token in special.silent or not 0 <= token < vocabulary:
            raise InputError(
                f"token {token} cannot occur in a text; expected ids of pieces, below {vocabulary}"
            )
