"""The encoder protocol."""

from abc import ABC, abstractmethod

from torch import nn

from regard.attention.memory import Memory
from regard.shapes import Lengths, Tokens


class Encoder(nn.Module, ABC):
    """Encode a padded batch into a memory of width `memory_width` with a summary of width `summary_width`."""

    memory_width: int
    summary_width: int
    self_attention: str | None = None
    """Names of the modules, within the encoder, by which positions read each other, one per layer, as a pattern for
    `record`; None if there are none."""

    @abstractmethod
    def forward(self, tokens: Tokens, lengths: Lengths) -> Memory:
        """Encode tokens `(batch, position)` of the sequences' `lengths (batch,)`."""
