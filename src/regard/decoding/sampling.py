"""Hypotheses, and their choice token by token: greedy decoding and sampling."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor

from regard.attention.memory import Memory
from regard.decoding.hypothesis import Hypothesis, LengthPenalty, NoTokenError
from regard.decoding.processors import LogitsProcessor
from regard.kernels.cpu import (
    choose_best_tokens,
    supports_logits,
    use_search_kernels,
)
from regard.nn.decoders import Decoder, State
from regard.text.kinds import SPECIAL, SpecialTokens
from regard.work import checkpoint


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
    """Return whether each token ends a text, in the shape of `tokens`."""
    result = tokens == special.end
    for end in special.more_ends:
        result = result | (tokens == end)
    return result


def require_token(best: Tensor) -> None:
    """Check that each row has a possible token.

    Args:
        best: The best score of each row.

    Raises:
        NoTokenError: A score is not finite.
    """
    if best.numel() and not all(math.isfinite(end) for end in best.aminmax()):
        raise NoTokenError


FEW_SCORES = 65_536
"""So many scores are searched at once faster than in two passes."""
BLOCK = 128
"""Scores of a row whose maximum stands for them in the first pass."""


def best_scores(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the `count` best of each row `(row, choice)`, best first, and their indices.

    `topk` reads long rows slowly. The best of all stand in blocks whose maxima are
    among the `count` best maxima, or behind the last whole block.
    """
    rows, choices = scores.shape
    blocks = choices // BLOCK
    if scores.numel() < FEW_SCORES or blocks <= 2 * count:
        best, order = scores.topk(min(count, choices))
        return best, order
    blocked = scores[:, : blocks * BLOCK].unflatten(1, (blocks, BLOCK))
    places = blocked.amax(-1).topk(count).indices.sort(-1).values
    offsets = torch.arange(BLOCK, device=scores.device)
    tail = torch.arange(blocks * BLOCK, choices, device=scores.device)
    candidates = (places[..., None] * BLOCK + offsets).flatten(1)
    candidates = torch.cat([candidates, tail.expand(rows, -1)], 1)
    best, order = scores.gather(1, candidates).topk(count)
    return best, candidates.gather(1, order)


def find_best_tokens(
    logits: Tensor,
    count: int,
    special: SpecialTokens,
    processors: Sequence[LogitsProcessor],
    length: int,
) -> tuple[Tensor, Tensor] | None:
    """Return the scores of the `count` best next tokens of each row, best first, and the tokens.

    They are those of `next_scores` and the processors, after `length` tokens, without
    the scores of all tokens. None where these are needed: a processor does not only
    forbid tokens, the kernel does not serve the logits, or a row has no possible token.
    """
    if not supports_logits(logits):
        return None
    vocabulary = logits.shape[-1]
    forbidden = [*special.unwritten, *range(vocabulary - special.unused, vocabulary)]
    for processor in processors:
        tokens = processor.forbidden(length)
        if tokens is None:
            return None
        forbidden += tokens
    return choose_best_tokens(logits, count, forbidden)


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
            The sequences with one more, and the logits `(place, vocabulary)` of the
            model.
        """
        checkpoint()
        last = last_tokens(self.tokens, self.special.start)
        logits, state = decoder.step(last, self.state)
        logits = logits.float()
        best = None
        if isinstance(choose, Sampler) and choose.temperature == 0:
            length = self.tokens.shape[1]
            best = find_best_tokens(logits, 1, self.special, processors, length)
        if best is None:
            for processor in processors:
                if processor.on_logits:
                    logits = processor(logits, self.tokens, self.rows)
            allowed = next_scores(logits, self.special)
            for processor in processors:
                if not processor.on_logits:
                    allowed = processor(allowed, self.tokens, self.rows)
            chosen = choose(allowed)[:, None]
            best = allowed.gather(1, chosen), chosen
        added, chosen = best
        tokens = torch.cat([self.tokens, chosen], 1)
        scores = self.scores + added[:, 0]
        return replace(self, tokens=tokens, scores=scores, state=state), logits

    def done(self, limits: Sequence[int]) -> list[bool]:
        """Return whether each sequence has ended or reached its row's limit."""
        length = self.tokens.shape[1]
        ends = self.special.ends
        last = zip(self.rows.tolist(), self.tokens[:, -1].tolist(), strict=True)
        return [token in ends or length >= limits[row] for row, token in last]

    def hypothesis(self, place: int, penalty: LengthPenalty) -> Hypothesis:
        """Return the hypothesis of a sequence that is done."""
        text = tuple(self.tokens[place].tolist())
        prompt = self.begins[int(self.rows[place])] if self.begins else 0
        score = penalty(float(self.scores[place]), len(text) - prompt)
        finished = text[-1] in self.special.ends
        return Hypothesis(text[:-1] if finished else text, score, finished)

    def drop(self, done: Sequence[bool]) -> "SequenceState":
        """Return the sequences that are not done."""
        if not any(done):
            return self
        places = [place for place, is_done in enumerate(done) if not is_done]
        stay = torch.tensor(places, dtype=torch.long, device=self.rows.device)
        names = "rows", "tokens", "scores"
        parts = {name: getattr(self, name)[stay] for name in names}
        return replace(self, state=self.state.select(stay), **parts)


@dataclass(frozen=True)
class Sampler:
    """Sample tokens from logits.

    Temperature 0 chooses the best token; `top_k` keeps the k best (0: all); `top_p`
    keeps the fewest tokens whose probabilities reach p (Holtzman 2020, 1904.09751).

    Raises:
        ValueError: Temperature negative or NaN, top_k negative, top_p outside (0,
            1].
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    generator: torch.Generator | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        problem = ""
        if not 0 <= self.temperature < math.inf:
            problem = f"temperature is {self.temperature}; it must be a number >= 0"
        elif self.top_k < 0:
            problem = f"top_k is {self.top_k}; it must be >= 0, where 0 keeps all"
        elif not 0 < self.top_p <= 1:
            problem = f"top_p is {self.top_p}; it must be above 0 and at most 1"
        if problem:
            raise ValueError(problem)

    def __call__(self, logits: Tensor) -> Tensor:
        """Map logits `(row, vocabulary)` to tokens `(row,)`.

        Raises:
            ValueError: A row without a possible token.
        """
        best, tokens = best_scores(logits, 1)
        require_token(best)
        if self.temperature == 0:
            return tokens[:, 0]
        ordered, tokens = logits.sort(-1, descending=True)
        ordered = (
            ordered - ordered[:, :1]
        ) / self.temperature  # at most 0, so that no temperature overflows
        if self.top_k:
            ordered[:, self.top_k :] = -torch.inf
        probabilities = ordered.softmax(-1)
        before = probabilities.cumsum(-1) - probabilities
        nucleus = probabilities.masked_fill(before >= self.top_p, 0.0)
        sampled = torch.multinomial(nucleus, 1, generator=self.generator)
        return tokens.gather(1, sampled)[:, 0]


@use_search_kernels()
def sample(
    decoder: Decoder,
    memory: Memory,
    sampler: Sampler,
    *,
    max_length: int | Tensor,
    penalty: LengthPenalty = NO_PENALTY,
    processors: Sequence[LogitsProcessor] = (),
    begins: tuple[int, ...] = (),
) -> list[list[Hypothesis]]:
    """Sample one hypothesis for each row of the memory, scored as in `Beam`.

    Finished sequences leave the batch.

    Args:
        max_length: The maximal number of tokens, the end included: one number, or
            `(batch,)`.
        begins: The number of tokens of each row that belong to its prompt and have
            no length for the penalty.
    """
    limits = max_lengths(memory, max_length).tolist()
    hypotheses: list[list[Hypothesis]] = [[] for _ in limits]
    sequences = SequenceState.first(decoder, memory, begins)
    while len(sequences.rows):
        sequences, _ = sequences.step(decoder, sampler, processors)
        done = sequences.done(limits)
        for place, is_done in enumerate(done):
            if is_done:
                hypothesis = sequences.hypothesis(place, penalty)
                hypotheses[int(sequences.rows[place])].append(hypothesis)
        sequences = sequences.drop(done)
    return hypotheses


GREEDY = Sampler(temperature=0.0)
greedy = partial(sample, sampler=GREEDY)
"""Choose the best token at every step, for one hypothesis of each row of the memory."""
