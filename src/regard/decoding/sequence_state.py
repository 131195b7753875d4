"""Sequences that are decoded a token at a time, one for each row."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.attention.memory import Memory
from regard.decoding.hypothesis import Hypothesis, LengthPenalty, last_tokens, next_scores
from regard.decoding.logits_processors import LogitsProcessor, process
from regard.nn.decoders.protocol import Decoder, State
from regard.text.special import SPECIAL, SpecialTokens


@dataclass(frozen=True, eq=False)
class SequenceState:
    """One sequence for each row of a memory that is still decoded.

    `rows (place,)` are rows of the memory; `tokens (place, length)` are those so far, `scores (place,)` their
    log-probabilities; `state` is the decoder's.
    special: the ids with which they begin and end.
    """

    rows: Tensor
    tokens: Tensor
    scores: Tensor
    state: State
    special: SpecialTokens = SPECIAL

    @classmethod
    def first(cls, decoder: Decoder, memory: Memory) -> "SequenceState":
        """Sequences without a token."""
        rows = torch.arange(memory.value.shape[0], device=memory.value.device)
        tokens, scores = rows.new_empty(len(rows), 0), torch.zeros(len(rows), device=rows.device)
        return cls(rows, tokens, scores, decoder.start(memory), decoder.special)

    def step(
        self, decoder: Decoder, choose: Callable[[Tensor], Tensor], processors: Sequence[LogitsProcessor]
    ) -> tuple["SequenceState", Tensor]:
        """Feed every sequence its last token -> the sequences with one more, and the scores `(place, vocabulary)` of
        the model. `choose` selects the token by the scores after the processors."""
        logits, state = decoder.step(last_tokens(self.tokens, self.special.start), self.state)
        following = next_scores(logits, self.special)
        allowed = process(processors, following, self.tokens, self.rows)
        chosen = choose(allowed)
        scores = self.scores + allowed.gather(1, chosen[:, None])[:, 0]
        grown = torch.cat([self.tokens, chosen[:, None]], 1)
        return replace(self, tokens=grown, scores=scores, state=state), following

    def done(self, limit: Tensor) -> Tensor:
        """Whether each sequence has ended or reached its row's `limit (batch,)`: `(place,)`."""
        return (self.tokens[:, -1] == self.special.end) | (self.tokens.shape[1] >= limit[self.rows])

    def hypothesis(self, place: int, penalty: LengthPenalty) -> Hypothesis:
        """The hypothesis of a sequence that is done."""
        text, score = self.tokens[place].tolist(), penalty(float(self.scores[place]), self.tokens.shape[1])
        finished = text[-1] == self.special.end
        return Hypothesis(tuple(text[:-1] if finished else text), score, finished)

    def without(self, which: Tensor) -> "SequenceState":
        """The sequences for which `which (place,)` is false."""
        if not which.any():
            return self
        stay = (~which).nonzero()[:, 0]
        state = self.state.select(stay)
        return replace(self, rows=self.rows[stay], tokens=self.tokens[stay], scores=self.scores[stay], state=state)
