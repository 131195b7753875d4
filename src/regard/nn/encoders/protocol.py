"""What every encoder is."""

from abc import ABC, abstractmethod

from torch import nn

from regard.attention.memory import Memory
from regard.shapes import Lengths, Tokens


class Encoder(nn.Module, ABC):
    """Reads a padded batch into a memory of `memory_width` whose summary has `summary_width`."""

    memory_width: int
    summary_width: int
    self_attention: str | None = None
    """Names of the modules, within the encoder, by which its positions read each other layer by layer, as `record`
    takes them; None: none do."""

    @abstractmethod
    def forward(self, tokens: Tokens, lengths: Lengths) -> Memory:
        """Tokens `(batch, position)` with each sequence's `lengths (batch,)`."""
