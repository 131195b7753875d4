"""A decoder with a limited context, for texts of any length."""

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.attention.memory import Memory
from regard.nn.decoders.protocol import SequenceDecoder, State
from regard.shapes import States, Tokens


@dataclass(frozen=True, eq=False)
class SlidingState(State):
    """The decoder's own, and the tokens that it has read, `(batch, position)`."""

    inner: State
    read: Tensor


class Sliding(SequenceDecoder[SlidingState]):
    """Reads at most `context` tokens in a row: where one more would not fit, the decoder begins anew with the last half
    of a context, so that every token is given at least that much of what came before it."""

    def __init__(self, decoder: SequenceDecoder, context: int):
        super().__init__()
        self.decoder, self.context, self.kept = decoder, context, context // 2
        self.output, self.source_attention = decoder.output, None

    def start(self, memory: Memory) -> SlidingState:
        inner = self.decoder.start(memory)
        return SlidingState(inner, torch.zeros(len(memory.value), 0, dtype=torch.int64, device=memory.value.device))

    def run(self, tokens: Tokens, state: SlidingState) -> tuple[States, SlidingState]:
        found = []
        for part in tokens.split(self.context - self.kept, 1):
            features, state = self._read(part, state)
            found.append(features)
        return torch.cat(found, 1), state

    def _read(self, tokens: Tensor, state: SlidingState) -> tuple[Tensor, SlidingState]:
        """As `run`, for no more tokens than fit behind what is kept."""
        before, inner = state.read, state.inner
        given = tokens
        if before.shape[1] + tokens.shape[1] > self.context:
            before = before[:, before.shape[1] - self.kept :]
            given = torch.cat([before, tokens], 1)
            nothing = next(self.parameters()).new_zeros(len(tokens), 0, 1)
            inner = self.decoder.start(Memory(nothing, nothing))
        features, inner = self.decoder.run(given, inner)
        return features[:, -tokens.shape[1] :], SlidingState(inner, torch.cat([before, tokens], 1))
