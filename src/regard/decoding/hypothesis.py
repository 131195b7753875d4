"""Hypotheses and their penalties, and the steps and checks that all searches share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.attention.memory import Memory
from regard.decoding.processors import LogitsProcessor, process
from regard.errors import RunError
from regard.nn.decoders import Decoder, State
from regard.shapes import Float
from regard.text.special import SPECIAL, SpecialTokens
from regard.work import checkpoint

LEAST = 1e-6
"""The coverage of a source position without any attention weight, so that its logarithm is finite."""


def padding_mask(memory: Memory) -> Tensor:
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


def max_lengths(memory: Memory, max_length: int | Tensor) -> Tensor:
    """Return the limit of each row in tokens, the end included: `(batch,)`.

    Raises:
        ValueError: A limit is below 1, or there is not one for each row.
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
    """Return the last token of each row `(row, length)`.

    The token `start` if the length is 0.
    """
    return tokens[:, -1] if tokens.shape[1] else tokens.new_full((len(tokens),), start)


def next_scores(logits: Tensor, special: SpecialTokens) -> Tensor:
    """Process logits.

    The others are not normalised again, so that a hypothesis has the same score as in
    forced decoding.

    Returns:
        Log-probabilities of the same shape, with minus infinity for padding, start
        and unused ids, which no text contains.
    """
    scores = logits.float().log_softmax(-1)
    for token in special.unwritten:
        scores[..., token] = -torch.inf
    if special.unused:
        scores[..., scores.shape[-1] - special.unused :] = -torch.inf
    return scores


def is_end(tokens: Tensor, special: SpecialTokens) -> Tensor:
    """Whether each token ends a text, in the shape of `tokens`."""
    result = tokens == special.end
    for end in special.more_ends:
        result = result | (tokens == end)
    return result


class NoTokenError(RunError, ValueError):
    """The logits of a step allow no token."""

    def __init__(self) -> None:
        super().__init__(
            "no token is possible: all logits of a row but those of padding and start are minus infinity, "
            "or one is infinite or NaN"
        )


def require_token(best: Tensor) -> None:
    """Check the arguments.

    Raises:
        NoTokenError: The best score of a row is not finite.
    """
    if not best.isfinite().all():
        raise NoTokenError


@dataclass(frozen=True)
class BrevityPenalty:
    """weight * min(0, 1 - expected / length), a penalty of short texts.

    It is the logarithm of BLEU's brevity penalty against an expected length (Yang 2018,
    1808.09582, BP-Norm), and 0 for a text that is long enough.

    `expected` has the length of each source's output.
    """

    weight: float
    expected: tuple[float, ...]

    @classmethod
    def of(cls, weight: float, ratio: float, memory: Memory) -> "BrevityPenalty":
        """Expect `ratio` tokens for each readable key of a source."""
        return cls(weight, tuple((ratio * (1 - padding_mask(memory)).sum(1)).tolist()))

    def __call__(self, length: int, source: int) -> float:
        """Return the penalty of a text of `length` tokens, at least 1."""
        return self.weight * min(0.0, 1 - self.expected[source] / length)


@dataclass(frozen=True)
class LengthPenalty:
    """Divide a log-probability by ((offset + length) / (offset + 1))^alpha.

    Offset 0 divides by length^alpha, alpha 0 by 1. See Wu 2016, equation 14, with
    offset 5.

    A `brevity` penalty is added.

    The length counts END.
    """

    alpha: float = 0.0
    offset: float = 5.0
    brevity: BrevityPenalty | None = None

    def __call__(
        self, log_probability: float, length: int, source: int | None = None
    ) -> float:
        """Return the score of a text of `length` tokens, at least 1.

        Without its source, that of a text long enough.
        """
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
    """beta * sum_i log(min(sum_t a_ti, 1)) over the positions of the source.

    0 with full coverage, END included, and negative for positions with a total weight
    below 1. See Wu 2016, 1609.08144, equation 14.
    """

    beta: float

    def __call__(self, coverage: Float[torch.Tensor, " source"]) -> float:
        return self.beta * float(coverage.clamp(LEAST, 1.0).log().sum())


@dataclass(frozen=True, eq=False)
class SequenceState:
    """One open sequence for each row of a memory.

    `rows (place,)` are rows of the memory; `tokens (place, length)` are the tokens so far and `scores (place,)` their
    log-probabilities; `state` is the decoder's.

    special: ids of the start and end tokens. begins: the number of tokens of each row
    of the memory that belong to its prompt; none if it is empty.
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
        """Feed every sequence its last token.

        `choose` selects the token by the scores after the processors.

        Returns:
            The sequences with one more, and the scores `(place, vocabulary)` of the
            model.
        """
        checkpoint()
        logits, state = decoder.step(
            last_tokens(self.tokens, self.special.start), self.state
        )
        early = [processor for processor in processors if processor.on_logits]
        following = next_scores(
            process(early, logits.float(), self.tokens, self.rows), self.special
        )
        late = [processor for processor in processors if not processor.on_logits]
        allowed = process(late, following, self.tokens, self.rows)
        chosen = choose(allowed)
        scores = self.scores + allowed.gather(1, chosen[:, None])[:, 0]
        grown = torch.cat([self.tokens, chosen[:, None]], 1)
        return replace(self, tokens=grown, scores=scores, state=state), following

    def done(self, limit: Tensor) -> Tensor:
        """Return whether each sequence has ended or reached its row's `limit (batch,)`.

        `(place,)`.
        """
        return is_end(self.tokens[:, -1], self.special) | (
            self.tokens.shape[1] >= limit[self.rows]
        )

    def hypothesis(self, place: int, penalty: LengthPenalty) -> Hypothesis:
        """Return the hypothesis of a sequence that is done."""
        text, source = self.tokens[place].tolist(), int(self.rows[place])
        prompt = self.begins[source] if self.begins else 0
        score = penalty(float(self.scores[place]), len(text) - prompt, source)
        finished = text[-1] in self.special.ends
        return Hypothesis(tuple(text[:-1] if finished else text), score, finished)

    def drop(self, done: Tensor) -> "SequenceState":
        """Return the sequences for which `done (place,)` is false."""
        if not done.any():
            return self
        stay = (~done).nonzero()[:, 0]
        state = self.state.select(stay)
        return replace(
            self,
            rows=self.rows[stay],
            tokens=self.tokens[stay],
            scores=self.scores[stay],
            state=state,
        )
