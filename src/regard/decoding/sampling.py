"""Greedy decoding and sampling."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from regard.attention.memory import Memory
from regard.decoding.hypothesis import (
    NO_PENALTY,
    Hypothesis,
    LengthPenalty,
    SequenceState,
    max_lengths,
    require_token,
)
from regard.decoding.processors import LogitsProcessor
from regard.nn.decoders import Decoder


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
        require_token(logits.amax(-1))
        if self.temperature == 0:
            return logits.argmax(-1)
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


@torch.no_grad()
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
    limit = max_lengths(memory, max_length)
    hypotheses: list[list[Hypothesis]] = [[] for _ in limit]
    sequences = SequenceState.first(decoder, memory, begins)
    while len(sequences.rows):
        sequences, _ = sequences.step(decoder, sampler, processors)
        done = sequences.done(limit)
        for place in done.nonzero()[:, 0].tolist():
            hypothesis = sequences.hypothesis(place, penalty)
            hypotheses[int(sequences.rows[place])].append(hypothesis)
        sequences = sequences.drop(done)
    return hypotheses


GREEDY = Sampler(temperature=0.0)
greedy = partial(sample, sampler=GREEDY)
"""Choose the best token at every step, for one hypothesis of each row of the memory."""
