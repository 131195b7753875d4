"""Hypotheses and their penalties, and the steps and checks that all searches share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.attention.memory import Memory
from regard.decoding.processors import LogitsProcessor, process
from regard.errors import RunError
from regard.nn.decoders import Decoder, State
from regard.text.kinds import SPECIAL, SpecialTokens
from regard.work import checkpoint


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
class LengthPenalty:
    """Divide a log-probability by ((offset + length) / (offset + 1))^alpha.

    Offset 0 divides by length^alpha, alpha 0 by 1. See Wu 2016, equation 14, with
    offset 5. The length counts END.
    """

    alpha: float = 0.0
    offset: float = 5.0

    def __call__(self, log_probability: float, length: int) -> float:
        """Return the score of a text of `length` tokens, at least 1."""
        relative = (self.offset + length) / (self.offset + 1)
        return log_probability / relative**self.alpha


NO_PENALTY = LengthPenalty()


@dataclass(frozen=True, eq=False)
class SequenceState:
    """One open sequence for each row of a memory.

    Attributes:
        rows: Rows of the memory, `(sequence,)`.
        tokens: The tokens so far, `(sequence, length)`.
        scores: Their log-probabilities, `(sequence,)`.
        state: The decoder's state.
        special: The ids of the start and end tokens.
        begins: How many tokens of each row of the memory belong to its prompt. Empty:
            none.
    """

    rows: Tensor
    tokens: Tensor
    scores: Tensor
    state: State
    special: SpecialTokens = SPECIAL
    begins: tuple[int, ...] = ()

    @classmethod
    def first(
        cls,
        decoder: Decoder,
        memory: Memory,
        begins: tuple[int, ...] = (),
    ) -> "SequenceState":
        """Sequences without a token."""
        rows = torch.arange(memory.value.shape[0], device=memory.value.device)
        tokens = rows.new_empty(len(rows), 0)
        scores = torch.zeros(len(rows), device=rows.device)
        return cls(
            rows,
            tokens,
            scores,
            decoder.start(memory),
            decoder.special,
            begins,
        )

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
        last = last_tokens(self.tokens, self.special.start)
        logits, state = decoder.step(last, self.state)
        early = [processor for processor in processors if processor.on_logits]
        late = [processor for processor in processors if not processor.on_logits]
        logits = process(early, logits.float(), self.tokens, self.rows)
        following = next_scores(logits, self.special)
        allowed = process(late, following, self.tokens, self.rows)
        chosen = choose(allowed)
        scores = self.scores + allowed.gather(1, chosen[:, None])[:, 0]
        grown = torch.cat([self.tokens, chosen[:, None]], 1)
        return replace(self, tokens=grown, scores=scores, state=state), following

    def done(self, limit: Tensor) -> Tensor:
        """Return whether each sequence has ended or reached its row's `limit (batch,)`.

        `(place,)`.
        """
        is_full = self.tokens.shape[1] >= limit[self.rows]
        return is_end(self.tokens[:, -1], self.special) | is_full

    def hypothesis(self, place: int, penalty: LengthPenalty) -> Hypothesis:
        """Return the hypothesis of a sequence that is done."""
        text = tuple(self.tokens[place].tolist())
        prompt = self.begins[int(self.rows[place])] if self.begins else 0
        score = penalty(float(self.scores[place]), len(text) - prompt)
        finished = text[-1] in self.special.ends
        return Hypothesis(text[:-1] if finished else text, score, finished)

    def drop(self, done: Tensor) -> "SequenceState":
        """Return the sequences for which `done (place,)` is false."""
        if not done.any():
            return self
        stay = (~done).nonzero()[:, 0]
        names = "rows", "tokens", "scores"
        parts = {name: getattr(self, name)[stay] for name in names}
        return replace(self, state=self.state.select(stay), **parts)
