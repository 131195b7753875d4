"""Texts that are being written, a token at a time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.attention.memory import Memory
from regard.decoding.hypothesis import Hypothesis, last_tokens, next_scores
from regard.decoding.logits_processors import Rule, held
from regard.decoding.penalties import LengthPenalty
from regard.nn.decoders.protocol import Decoder, State
from regard.text.special import END


@dataclass(frozen=True, eq=False)
class Draft:
    """One text for each row of a memory that is still written.

    `rows (place,)` says which; `written (place, length)`; `scores (place,)` are log-probabilities of what is written.
    """

    rows: Tensor
    written: Tensor
    scores: Tensor
    state: State

    @classmethod
    def first(cls, decoder: Decoder, memory: Memory) -> "Draft":
        """Nothing is written yet."""
        rows = torch.arange(memory.value.shape[0], device=memory.value.device)
        return cls(
            rows, rows.new_empty(len(rows), 0), torch.zeros(len(rows), device=rows.device), decoder.start(memory)
        )

    def step(
        self, decoder: Decoder, choose: Callable[[Tensor], Tensor], rules: Sequence[Rule]
    ) -> tuple["Draft", Tensor]:
        """Feed every text its last token -> the texts with the next one, which `choose` takes by the scores that the
        rules leave, and the model's own scores `(place, vocabulary)` of all that might have come."""
        logits, state = decoder.step(last_tokens(self.written), self.state)
        following = next_scores(logits)
        allowed = held(rules, following, self.written, self.rows)
        tokens = choose(allowed)
        scores = self.scores + allowed.gather(1, tokens[:, None])[:, 0]
        return Draft(self.rows, torch.cat([self.written, tokens[:, None]], 1), scores, state), following

    def done(self, limit: Tensor) -> Tensor:
        """Which texts have ended, or have as many tokens as `limit (batch,)` gives their rows: `(place,)`."""
        return (self.written[:, -1] == END) | (self.written.shape[1] >= limit[self.rows])

    def hypothesis(self, place: int, penalty: LengthPenalty) -> Hypothesis:
        """A text that is done."""
        text, score = self.written[place].tolist(), penalty(float(self.scores[place]), self.written.shape[1])
        finished = text[-1] == END
        return Hypothesis(tuple(text[:-1] if finished else text), score, finished)

    def without(self, which: Tensor) -> "Draft":
        """All texts but those for which `which (place,)` is true."""
        if not which.any():
            return self
        stay = (~which).nonzero()[:, 0]
        return Draft(self.rows[stay], self.written[stay], self.scores[stay], self.state.select(stay))
