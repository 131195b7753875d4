"""Sequences that are decoded a token at a time, one for each row."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.attention.memory import Memory
from regard.decoding.hypothesis import Hypothesis, LengthPenalty, last_tokens, next_scores
from regard.decoding.logits_processors import LogitsProcessor, process
from regard.nn.decoders.protocol import Decoder, State
from regard.text.special import END


@dataclass(frozen=True, eq=False)
class SequenceState:
    """One sequence for each row of a memory that is still decoded.

    `rows (place,)` are rows of the memory; `tokens (place, length)` are those so far, `scores (place,)` their
    log-probabilities; `state` is the decoder's.
    """

    rows: Tensor
    tokens: Tensor
    scores: Tensor
    state: State

    @classmethod
    def first(cls, decoder: Decoder, memory: Memory) -> "SequenceState":
        """Sequences without a token."""
        rows = torch.arange(memory.value.shape[0], device=memory.value.device)
        return cls(
            rows, rows.new_empty(len(rows), 0), torch.zeros(len(rows), device=rows.device), decoder.start(memory)
        )

    def step(
        self, decoder: Decoder, choose: Callable[[Tensor], Tensor], processors: Sequence[LogitsProcessor]
    ) -> tuple["SequenceState", Tensor]:
        """Feed every sequence its last token -> the sequences with one more, and the scores `(place, vocabulary)` of
        the model. `choose` selects the token by the scores after the processors."""
        logits, state = decoder.step(last_tokens(self.tokens), self.state)
        following = next_scores(logits)
        allowed = process(processors, following, self.tokens, self.rows)
        chosen = choose(allowed)
        scores = self.scores + allowed.gather(1, chosen[:, None])[:, 0]
        return SequenceState(self.rows, torch.cat([self.tokens, chosen[:, None]], 1), scores, state), following

    def done(self, limit: Tensor) -> Tensor:
        """Whether each sequence has ended or reached its row's `limit (batch,)`: `(place,)`."""
        return (self.tokens[:, -1] == END) | (self.tokens.shape[1] >= limit[self.rows])

    def hypothesis(self, place: int, penalty: LengthPenalty) -> Hypothesis:
        """The hypothesis of a sequence that is done."""
        text, score = self.tokens[place].tolist(), penalty(float(self.scores[place]), self.tokens.shape[1])
        finished = text[-1] == END
        return Hypothesis(tuple(text[:-1] if finished else text), score, finished)

    def without(self, which: Tensor) -> "SequenceState":
        """The sequences for which `which (place,)` is false."""
        if not which.any():
            return self
        stay = (~which).nonzero()[:, 0]
        return SequenceState(self.rows[stay], self.tokens[stay], self.scores[stay], self.state.select(stay))
