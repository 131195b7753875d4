"""Recurrent decoders whose next step needs their last: one turn at a time, and all else for all turns at once."""

from abc import abstractmethod

import torch
from torch import Tensor, nn

from regard.nn.decoders.protocol import Decoder, S
from regard.nn.embeddings import TokenEmbedding
from regard.shapes import Float, States, Step, Tokens


class Stepwise(Decoder[S]):
    """Embeds the tokens, takes its turns over them in order, and makes features of all the turns together."""

    embedding: TokenEmbedding
    readout: nn.Module
    """From what `turn` gives to features, `(*batch, parts_width)` -> `(*batch, width)`."""

    @abstractmethod
    def turn(self, embedded: Float[Tensor, "batch embedding"], state: S) -> tuple[Float[Tensor, "batch parts"], S]:
        """One step of the recurrence -> what the readout needs of it, and the state after it."""

    def advance(self, tokens: Step, state: S) -> tuple[Float[Tensor, "batch width"], S]:
        parts, state = self.turn(self.embedding(tokens), state)
        return self.readout(parts), state

    def features(self, tokens: Tokens, state: S) -> States:
        turns = []
        for embedded in self.embedding(tokens).unbind(1):
            parts, state = self.turn(embedded, state)
            turns.append(parts)
        return self.readout(torch.stack(turns, 1))
