"""The state of greedy and sampled decoding: sequences that grow by a token a step."""

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
class SequenceState:
    """The sequences that are not done, one for each of some rows of a memory.

    rows: their rows, `(place,)`.
    tokens: `(place, length)`.
    scores: their log-probabilities, `(place,)`.
    state: the decoder's.
    """

    rows: Tensor
    tokens: Tensor
    scores: Tensor
    state: State

    @classmethod
    def first(cls, decoder: Decoder, memory: Memory) -> "SequenceState":
        """An empty sequence for each row."""
        rows = torch.arange(memory.value.shape[0], device=memory.value.device)
        return cls(
            rows, rows.new_empty(len(rows), 0), torch.zeros(len(rows), device=rows.device), decoder.start(memory)
        )

    def step(
        self, decoder: Decoder, choose: Callable[[Tensor], Tensor], rules: Sequence[Rule]
    ) -> tuple["SequenceState", Tensor]:
        """Feed every text its last token -> the texts with the next one, which `choose` takes by the scores that the
        rules leave, and the model's own scores `(place, vocabulary)` of all that might have come."""
        logits, state = decoder.step(last_tokens(self.tokens), self.state)
        following = next_scores(logits)
        allowed = held(rules, following, self.tokens, self.rows)
        tokens = choose(allowed)
        scores = self.scores + allowed.gather(1, tokens[:, None])[:, 0]
        return SequenceState(self.rows, torch.cat([self.tokens, tokens[:, None]], 1), scores, state), following

    def done(self, limit: Tensor) -> Tensor:
        """Which texts have ended, or have as many tokens as `limit (batch,)` gives their rows: `(place,)`."""
        return (self.tokens[:, -1] == END) | (self.tokens.shape[1] >= limit[self.rows])

    def hypothesis(self, place: int, penalty: LengthPenalty) -> Hypothesis:
        """A text that is done."""
        text, score = self.tokens[place].tolist(), penalty(float(self.scores[place]), self.tokens.shape[1])
        finished = text[-1] == END
        return Hypothesis(tuple(text[:-1] if finished else text), score, finished)

    def without(self, which: Tensor) -> "SequenceState":
        """All texts but those for which `which (place,)` is true."""
        if not which.any():
            return self
        stay = (~which).nonzero()[:, 0]
        return SequenceState(self.rows[stay], self.tokens[stay], self.scores[stay], self.state.select(stay))
