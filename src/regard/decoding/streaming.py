"""Outputs that are decoded while somebody reads them, one step of all at a time."""

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
from regard.decoding.hypothesis import Hypothesis, LengthPenalty, SequenceState, limits
from regard.decoding.logits_processors import LogitsProcessor
from regard.decoding.sampling import Sampler
from regard.errors import InputError
from regard.maps.lookups import Patches
from regard.nn.decoders.protocol import Decoder
from regard.text.special import SpecialTokens


def always(row: int) -> bool:
    """Every sequence goes on to its end."""
    return True


@dataclass(frozen=True)
class StepOptions:
    """What each step gives beside its token, and which sequences go on.

    model, names: modules of `model` whose weights are recorded; None for none.
    candidates: how many of the likeliest tokens.
    active: called with a row before each step; a row for which it is false is dropped.
    """

    model: nn.Module
    names: str | tuple[str, ...] | None = None
    candidates: int = 0
    active: Callable[[int], bool] = always


@dataclass(frozen=True, eq=False)
class Step:
    """One more token for a `row` of the memory.

    tokens: all so far, this one last, the end among them.
    score: the log-probability of them all.
    log_probability: that of this token.
    attention: the weights `(layer, head, key)` that it was predicted with; None where none are recorded.
    candidates: the likeliest tokens in its place with their log-probabilities, best first.
    hypothesis: the whole sequence once it is done.
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
    """Decode as `greedy`, or with a `Sampler` to `choose` as `sample`, and give each step of all sequences that are not
    done, in the order of their rows.

    Args:
        max_length: the maximal number of tokens, the end included: one number, or `(batch,)`.

    Raises:
        ValueError: max_length below 1, or no token can follow a sequence.
    """
    limit, penalty = limits(memory, max_length), penalty or LengthPenalty()
    choose = Sampler(temperature=0.0) if choose is None else choose
    with torch.no_grad():  # never across a yield: it would switch gradients off for the caller
        state = _active(SequenceState.first(decoder, memory), options)
    while len(state.rows):
        with torch.no_grad(), _recording(options) as maps:
            state, following = state.step(decoder, choose, processors)
        attention = None if maps is None else maps.layered()[:, :, :, 0].double().cpu().numpy()
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
        state = _active(state.without(done), options)


def _active(state: SequenceState, options: StepOptions) -> SequenceState:
    dropped = [not options.active(row) for row in state.rows.tolist()]
    return state.without(torch.tensor(dropped, dtype=torch.bool, device=state.rows.device))


def _recording(options: StepOptions) -> AbstractContextManager[Maps | None]:
    return nullcontext() if options.names is None else record(options.model, only=options.names)


def _best(scores: Tensor, count: int) -> list[tuple[int, float]]:
    best, tokens = scores.topk(min(count, len(scores)))
    pairs = zip(tokens.tolist(), best.tolist(), strict=True)
    return [(token, score) for token, score in pairs if score > -torch.inf]


@dataclass(frozen=True)
class Candidate:
    """A token that might stand somewhere, its readable piece, and the probability that the model gives it there."""

    token: int
    piece: str
    probability: float


@dataclass(frozen=True, eq=False)
class StreamSource:
    """What an output is decoded from.

    labels: of what its first token can read, a label for each key.
    patches: the image that they are parts of.
    forced: how many of its first tokens are a prefix.
    growth: how many of its own tokens can be read as well, at most.
    """

    labels: Sequence[str]
    patches: Patches | None = None
    forced: int = 0
    growth: int = 0


@dataclass(frozen=True, eq=False)
class StreamEvent:
    """The output for the `number`-th of some examples, with one more token.

    source: what the output is decoded from, the same in all its events.
    token, piece, log_probability: the newest token, its readable form, and what the model gives it.
    text, score: the output so far and its log-probability, at the end as the search ranks it.
    attention: the weights `(layer, head, key)` that the token was predicted with; None for a model without attention.
    candidates: the likeliest tokens in its place, best first.
    last: nothing follows.
    finished: the model ended the output; otherwise the limit did.
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
    def of(cls, step: Step, source: StreamSource, text: str, pieces: Callable[[list[int]], list[str]]) -> "StreamEvent":
        """From a step, what the output is decoded from, the text so far, and the readable forms of tokens."""

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
            tuple(Candidate(token, piece(token), math.exp(score)) for token, score in step.candidates),
            done is not None,
            done is not None and done.finished,
        )


def check_prefixes(prefixes: Sequence[Sequence[int]], vocabulary: int, special: SpecialTokens) -> None:
    """Raises InputError for tokens that no output contains, of a vocabulary of this size with these special ids."""
    for token in (token for prefix in prefixes for token in prefix):
        if token in special.silent or not 0 <= token < vocabulary:
            raise InputError(f"token {token} is no part of a text; a prefix has tokens of words, below {vocabulary}")
