"""Any encoder with any decoder."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.data.batching import PairBatch, collate
from regard.nn.decoders.protocol import Decoder, unroll
from regard.nn.encoders.protocol import Encoder
from regard.shapes import Float, Lengths, Source, Tokens
from regard.text.special import SPECIAL, SpecialTokens


class EncoderDecoder(nn.Module):
    """p(y | x) as the product over positions of softmax(output(features))."""

    max_source: int | None = None
    """Longest source in tokens, the end included; None for any."""
    max_target: int | None = None
    source_special: SpecialTokens = SPECIAL
    """The special ids of the source vocabulary; the decoder has those of the target's."""

    def __init__(self, encoder: Encoder, decoder: Decoder):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def collate(self, examples: Sequence[tuple[list[int], list[int]]]) -> PairBatch:
        """Pad pairs of (source ids, target ids), with their special tokens. Raises ValueError if there are no pairs."""
        return collate(examples, self.source_special, self.decoder.special)

    def features(
        self,
        source: Source,
        source_lengths: Lengths,
        target: Tokens,
        forcing: float = 1.0,
    ) -> Any:
        """The input of the output layer, for a right-shifted target `(batch, position)` that begins with the start
        token.

        `forcing` is the probability of teacher forcing at each step.
        """
        return decoded(
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
        """Logits `(batch, position, vocabulary)` of the token after each target token. `decoder.output.loss(features,
        expected)` computes their loss without storing them."""
        return self.decoder.output(
            self.features(source, source_lengths, target, forcing)
        )


def decoded(decoder: Decoder, memory: Memory, target: Tokens, forcing: float) -> Any:
    """The input of a decoder's output layer, for a memory and a right-shifted target."""
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
        """The input of the output layer, as `EncoderDecoder.features`."""
        return decoded(self.decoder, memory, target, forcing)
