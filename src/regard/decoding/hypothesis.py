"""Hypotheses and their penalties, and the steps and checks that all searches share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.attention.memory import Memory
from regard.decoding.logits_processors import LogitsProcessor, process
from regard.errors import RunError
from regard.nn.decoders.protocol import Decoder, State
from regard.shapes import Float
from regard.text.special import SPECIAL, SpecialTokens
from regard.work import checkpoint

LEAST = 1e-6
"""The coverage of a source position without any attention weight, so that its logarithm is finite."""


def unreadable(memory: Memory) -> Tensor:
    """1 for padding and other masked positions, 0 for the others, `(batch, key)`."""
    readable = None if memory.mask is None else memory.mask.readable()
    nothing = memory.value.new_zeros(memory.value.shape[:2])
    return nothing if readable is None else (~readable).to(nothing).expand_as(nothing)


@dataclass(frozen=True)
class Hypothesis:
    """One output: its tokens without start and end, its score, and whether it ended with END or at the length limit.

    The score is a log-probability, with the penalties of the search; higher is better.
    """

    tokens: tuple[int, ...]
    score: float
    finished: bool


def limits(memory: Memory, max_length: int | Tensor) -> Tensor:
    """The limit of each row in tokens, the end included: `(batch,)`.

    Raises:
        ValueError: a limit is below 1, or there is not one for each row.
    """
    batch = memory.value.shape[0]
    limit = torch.as_tensor(max_length, device=memory.value.device)
    if limit.numel() and int(limit.min()) < 1:
        raise ValueError(f"max_length is {int(limit.min())}; it must be at least 1")
    if limit.ndim > 1 or (limit.ndim and len(limit) != batch):
        raise ValueError(
            f"max_length has shape {tuple(limit.shape)}; give one number, or one for each of {batch} rows"
        )
    return limit.expand(batch)


def last_tokens(tokens: Tensor, start: int) -> Tensor:
    """The last token of each row `(row, length)`; the token `start` if the length is 0."""
    return tokens[:, -1] if tokens.shape[1] else tokens.new_full((len(tokens),), start)


def next_scores(logits: Tensor, special: SpecialTokens) -> Tensor:
    """Logits -> log-probabilities of the same shape, with minus infinity for padding, start and unused ids, which no
    text contains.

    The others are not normalised again, so that a hypothesis has the same score as in forced decoding.
    """
    scores = logits.float().log_softmax(-1)
    for token in special.unwritten:
        scores[..., token] = -torch.inf
    if special.unused:
        scores[..., scores.shape[-1] - special.unused :] = -torch.inf
    return scores


def ended(tokens: Tensor, special: SpecialTokens) -> Tensor:
    """Whether each token ends a text, in the shape of `tokens`."""
    found = tokens == special.end
    for end in special.more_ends:
        found = found | (tokens == end)
    return found


class NoTokenError(RunError, ValueError):
    """The logits of a step allow no token."""

    def __init__(self) -> None:
        super().__init__(
            "no token is possible: all logits of a row but those of padding and start are minus infinity, "
            "or one is infinite or NaN"
        )


def require_token(best: Tensor) -> None:
    """Raise NoTokenError if the best score of a row is not finite."""
    if not best.isfinite().all():
        raise NoTokenError


@dataclass(frozen=True)
class BrevityPenalty:
    """weight * min(0, 1 - expected / length), the logarithm of BLEU's brevity penalty against an expected length (Yang
    2018, 1808.09582, BP-Norm); 0 for a text that is long enough. `expected` has the length of each source's output."""

    weight: float
    expected: tuple[float, ...]

    @classmethod
    def of(cls, weight: float, ratio: float, memory: Memory) -> "BrevityPenalty":
        """Expect `ratio` tokens for each readable key of a source."""
        return cls(weight, tuple((ratio * (1 - unreadable(memory)).sum(1)).tolist()))

    def __call__(self, length: int, source: int) -> float:
        """The penalty of a text of `length` tokens, at least 1."""
        return self.weight * min(0.0, 1 - self.expected[source] / length)


@dataclass(frozen=True)
class LengthPenalty:
    """Divide a log-probability by ((offset + length) / (offset + 1))^alpha (Wu 2016, equation 14, with offset 5);
    offset 0 divides by length^alpha, alpha 0 by 1. A `brevity` penalty is added.

    The length counts END.
    """

    alpha: float = 0.0
    offset: float = 5.0
    brevity: BrevityPenalty | None = None

    def __call__(
        self, log_probability: float, length: int, source: int | None = None
    ) -> float:
        """The score of a text of `length` tokens, at least 1; without its source, that of a text long enough."""
        score = (
            log_probability / ((self.offset + length) / (self.offset + 1)) ** self.alpha
        )
        return (
            score
            if self.brevity is None or source is None
            else score + self.brevity(length, source)
        )


@dataclass(frozen=True)
class CoveragePenalty:
    """beta * sum_i log(min(sum_t a_ti, 1)) over the positions of the source (Wu 2016, 1609.08144, equation 14): 0 with
    full coverage, END included, and negative for positions with a total weight below 1."""

    beta: float

    def __call__(self, coverage: Float[torch.Tensor, " source"]) -> float:
        return self.beta * float(coverage.clamp(LEAST, 1.0).log().sum())


@dataclass(frozen=True, eq=False)
class SequenceState:
    """One open sequence for each row of a memory.

    `rows (place,)` are rows of the memory; `tokens (place, length)` are the tokens so far and `scores (place,)` their
    log-probabilities; `state` is the decoder's.

    special: ids of the start and end tokens.
    begins: the number of tokens of each row of the memory that belong to its prompt; none if it is empty.
    """

    rows: Tensor
    tokens: Tensor
    scores: Tensor
    state: State
    special: SpecialTokens = SPECIAL
    begins: tuple[int, ...] = ()

    @classmethod
    def first(
        cls, decoder: Decoder, memory: Memory, begins: tuple[int, ...] = ()
    ) -> "SequenceState":
        """Sequences without a token."""
        rows = torch.arange(memory.value.shape[0], device=memory.value.device)
        tokens, scores = (
            rows.new_empty(len(rows), 0),
            torch.zeros(len(rows), device=rows.device),
        )
        return cls(rows, tokens, scores, decoder.start(memory), decoder.special, begins)

    def step(
        self,
        decoder: Decoder,
        choose: Callable[[Tensor], Tensor],
        processors: Sequence[LogitsProcessor],
    ) -> tuple["SequenceState", Tensor]:
        """Feed every sequence its last token -> the sequences with one more, and the scores `(place, vocabulary)` of
        the model. `choose` selects the token by the scores after the processors."""
        checkpoint()
        logits, state = decoder.step(
            last_tokens(self.tokens, self.special.start), self.state
        )
        early = [each for each in processors if each.on_logits]
        following = next_scores(
            process(early, logits.float(), self.tokens, self.rows), self.special
        )
        late = [each for each in processors if not each.on_logits]
        allowed = process(late, following, self.tokens, self.rows)
        chosen = choose(allowed)
        scores = self.scores + allowed.gather(1, chosen[:, None])[:, 0]
        grown = torch.cat([self.tokens, chosen[:, None]], 1)
        return replace(self, tokens=grown, scores=scores, state=state), following

    def done(self, limit: Tensor) -> Tensor:
        """Whether each sequence has ended or reached its row's `limit (batch,)`: `(place,)`."""
        return ended(self.tokens[:, -1], self.special) | (
            self.tokens.shape[1] >= limit[self.rows]
        )

    def hypothesis(self, place: int, penalty: LengthPenalty) -> Hypothesis:
        """The hypothesis of a sequence that is done."""
        text, source = self.tokens[place].tolist(), int(self.rows[place])
        prompt = self.begins[source] if self.begins else 0
        score = penalty(float(self.scores[place]), len(text) - prompt, source)
        finished = text[-1] in self.special.ends
        return Hypothesis(tuple(text[:-1] if finished else text), score, finished)

    def without(self, which: Tensor) -> "SequenceState":
        """The sequences for which `which (place,)` is false."""
        if not which.any():
            return self
        stay = (~which).nonzero()[:, 0]
        state = self.state.select(stay)
        return replace(
            self,
            rows=self.rows[stay],
            tokens=self.tokens[stay],
            scores=self.scores[stay],
            state=state,
        )
