"""Streamed decoding: yield every step of all sequences."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.attention.record import record
from regard.decoding.hypothesis import Hypothesis, LengthPenalty
from regard.decoding.processors import LogitsProcessor
from regard.decoding.sampling import (
    GREEDY,
    NO_PENALTY,
    SequenceState,
    max_lengths,
    next_scores,
)
from regard.errors import InputError
from regard.kernels.cpu import use_search_kernels
from regard.maps.lookups import ImagePatches, SoundParts
from regard.nn.decoders import Decoder
from regard.text.kinds import SpecialTokens


def always(row: int) -> bool:
    """Continue every sequence to its end."""
    return True


@dataclass(frozen=True)
class StepOptions:
    """The contents of each step, and the sequences to continue.

    Attributes:
        model: The model that is recorded.
        names: Its modules whose weights are recorded; None: none.
        candidates: How many likely tokens a step has.
        active: Called with a row before each step; the row ends once it is false.
        begins: How many tokens of each row belong to its prompt and have no length for
            the penalty.
    """

    model: nn.Module
    names: str | tuple[str, ...] | None = None
    candidates: int = 0
    active: Callable[[int], bool] = always
    begins: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Step:
    """One more token for a `row` of the memory.

    Attributes:
        tokens: All tokens so far, END included.
        score: The log-probability of all tokens.
        log_probability: That of this token.
        attention: The weights `(layer, head, key)` that predicted it; None without
            recording.
        candidates: The likeliest tokens at this position with their log-probabilities,
            best first.
        hypothesis: The whole sequence once it is done.
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
    choose: Callable[[Tensor], Tensor] = GREEDY,
    penalty: LengthPenalty = NO_PENALTY,
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
    limits = max_lengths(memory, max_length).tolist()

    with (
        torch.no_grad()
    ):  # never across a yield: it would switch gradients off for the caller
        state = _active(SequenceState.first(decoder, memory, options.begins), options)
    while len(state.rows):
        recording = nullcontext()
        if options.names is not None:
            recording = record(options.model, only=options.names)
        with use_search_kernels(), recording as maps:
            state, logits = state.step(decoder, choose, processors)
            following = next_scores(logits, state.special)
        attention = None
        if maps is not None:
            attention = maps.stack_layers()[:, :, :, 0].double().cpu().numpy()
        done = state.done(limits)
        for place, finished in enumerate(done):
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
    return state.drop([not options.active(row) for row in state.rows.tolist()])


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

    Attributes:
        labels: Labels of the keys that the first token can read.
        patches: The image whose parts these are, if any.
        recording: The sound whose parts these are, if any.
        forced: How many tokens belong to the prefix.
        growth: How many of its own tokens the output can read as well.
    """

    labels: Sequence[str]
    patches: ImagePatches | None = None
    recording: SoundParts | None = None
    forced: int = 0
    growth: int = 0


@dataclass(frozen=True, eq=False)
class StreamEvent:
    """One more token of the output for example `number`.

    Attributes:
        source: The source of the output, the same in all its events.
        token: The newest token.
        piece: Its readable form.
        text: The output so far.
        score: Its log-probability; at the end the score of the search.
        log_probability: That of the newest token.
        attention: The weights `(layer, head, key)` that predicted the token; None for a
            model without attention.
        candidates: The likeliest tokens at this position, best first.
        last: Whether this is the last event of the output.
        finished: Whether the model ended the output, not the limit.
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
        done = step.hypothesis
        token = step.tokens[-1]
        return cls(
            step.row,
            source,
            token,
            pieces([token])[0],
            text,
            step.score if done is None else done.score,
            step.log_probability,
            step.attention,
            tuple(
                Candidate(token, pieces([token])[0], math.exp(score))
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
    """Check that outputs can contain the tokens of all prefixes.

    Args:
        prefixes: The tokens of each prefix.
        vocabulary: The size of the vocabulary.
        special: Its special ids.

    Raises:
        InputError: No output can contain a token.
    """
    for token in chain(*prefixes):
        if token in special.silent or not 0 <= token < vocabulary:
            raise InputError(
                f"token {token} cannot occur in a text; expected ids of pieces, below {vocabulary}"
            )
