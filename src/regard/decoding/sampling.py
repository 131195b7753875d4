"""One token at a time: the best one, or one drawn."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.attention.memory import Memory
from regard.decoding.hypothesis import Hypothesis, limits, require_token
from regard.decoding.logits_processors import Rule
from regard.decoding.penalties import LengthPenalty
from regard.decoding.sequence_state import SequenceState
from regard.nn.decoders.protocol import Decoder


@dataclass(frozen=True)
class Sampler:
    """Draws tokens from logits.

    Temperature 0 takes the best; `top_k` keeps the k best (0: all); `top_p` keeps the fewest tokens whose probabilities
    reach p (Holtzman 2020, 1904.09751).

    Raises:
        ValueError: temperature negative or NaN, top_k negative, top_p outside (0, 1].
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    generator: torch.Generator | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not self.temperature >= 0 or math.isinf(self.temperature):
            raise ValueError(f"temperature is {self.temperature}; it must be a number of at least 0")
        if self.top_k < 0:
            raise ValueError(f"top_k is {self.top_k}; it must be at least 0, where 0 keeps all")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p is {self.top_p}; it must be above 0 and at most 1")

    def __call__(self, logits: Tensor) -> Tensor:
        """Logits `(row, vocabulary)` -> tokens `(row,)`. Raises ValueError for a row that has no possible token."""
        require_token(logits.amax(-1))
        if self.temperature == 0:
            return logits.argmax(-1)
        ordered, tokens = logits.sort(-1, descending=True)
        ordered = (ordered - ordered[:, :1]) / self.temperature  # nothing above 0, which no temperature can overflow
        if self.top_k:
            ordered[:, self.top_k :] = -torch.inf
        probabilities = ordered.softmax(-1)
        before = probabilities.cumsum(-1) - probabilities
        kept = probabilities.masked_fill(before >= self.top_p, 0.0)
        drawn = torch.multinomial(kept, 1, generator=self.generator)
        return tokens.gather(1, drawn)[:, 0]


@torch.no_grad()
def sample(
    decoder: Decoder,
    memory: Memory,
    sampler: Sampler,
    *,
    max_length: int | Tensor,
    penalty: LengthPenalty | None = None,
    rules: Sequence[Rule] = (),
) -> list[list[Hypothesis]]:
    """One hypothesis for each row of the memory, scored as `Beam` does. Finished sequences leave the batch.

    Args:
        max_length: most tokens, END included: one number, or `(batch,)`.
    """
    limit = limits(memory, max_length)
    penalty = LengthPenalty() if penalty is None else penalty
    found: list[list[Hypothesis]] = [[] for _ in limit]
    state = SequenceState.first(decoder, memory)
    while len(state.rows):
        state, _ = state.step(decoder, sampler, rules)
        done = state.done(limit)
        for place in done.nonzero()[:, 0].tolist():
            found[int(state.rows[place])].append(state.hypothesis(place, penalty))
        state = state.without(done)
    return found


def greedy(
    decoder: Decoder,
    memory: Memory,
    *,
    max_length: int | Tensor,
    penalty: LengthPenalty | None = None,
    rules: Sequence[Rule] = (),
) -> list[list[Hypothesis]]:
    """The best token at every step: one hypothesis for each row of the memory."""
    return sample(decoder, memory, Sampler(temperature=0.0), max_length=max_length, penalty=penalty, rules=rules)
