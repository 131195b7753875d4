"""The encoder protocol, and any encoder with any decoder."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.data.batches import PairBatch, collate
from regard.nn.decoders import Decoder, unroll
from regard.shapes import Float, Lengths, Source, Tokens
from regard.text.special import SPECIAL, SpecialTokens


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


class EncoderDecoder(nn.Module):
    """p(y | x) as the product over positions of softmax(output(features))."""

    max_source: int | None = None
    """Longest source in tokens, the end included; None for any."""
    max_target: int | None = None
    source_special: SpecialTokens = SPECIAL
    """The special ids of the source vocabulary; the decoder has those of the target's."""

    def __init__(self, encoder: Encoder, decoder: Decoder):
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder

    def collate(self, examples: Sequence[tuple[list[int], list[int]]]) -> PairBatch:
        """Pad pairs of (source ids, target ids), with their special tokens.

        Raises:
            ValueError: There are no pairs.
        """
        return collate(examples, self.source_special, self.decoder.special)

    def features(
        self,
        source: Source,
        source_lengths: Lengths,
        target: Tokens,
        forcing: float = 1.0,
    ) -> Any:
        """Return the input of the output layer for a right-shifted target.

        The target `(batch, position)` begins with the start token.

        `forcing` is the probability of teacher forcing at each step.
        """
        return decode_target(
            self.decoder, self.encoder(source, source_lengths), target, forcing
        )

    def forward(
        self,
        source: Source,
        source_lengths: Lengths,
        target: Tokens,
        *,
        forcing: float = 1.0,
    ) -> Float[Tensor, "batch position vocabulary"]:
        """Logits `(batch, position, vocabulary)` of the token after each target token.

        `decoder.output.loss(features, expected)` computes their loss without storing
        them.
        """
        return self.decoder.output(
            self.features(source, source_lengths, target, forcing)
        )


def decode_target(
    decoder: Decoder,
    memory: Memory,
    target: Tokens,
    forcing: float,
) -> Any:
    """Return the input of a decoder's output layer, for a memory and a right-shifted target."""
    state = decoder.start(memory)
    return (
        unroll(decoder, target, state, forcing)
        if forcing < 1.0
        else decoder.features(target, state)
    )


@dataclass(frozen=True)
class MemoryReader:
    """A decoder whose source is a memory, already encoded."""

    decoder: Decoder

    def features(self, memory: Memory, target: Tokens, forcing: float = 1.0) -> Any:
        """Return the input of the output layer, as `EncoderDecoder.features`."""
        return decode_target(self.decoder, memory, target, forcing)
