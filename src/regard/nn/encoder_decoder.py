"""Any encoder with any decoder."""

from collections.abc import Sequence
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
    """Longest source that the model can take, the end included; None: any."""
    max_target: int | None = None
    source_special: SpecialTokens = SPECIAL
    """The special ids of the source's vocabulary; the decoder has those of the target's."""

    def __init__(self, encoder: Encoder, decoder: Decoder):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def collate(self, examples: Sequence[tuple[list[int], list[int]]]) -> PairBatch:
        """Pad (source ids, target ids) pairs, with their special tokens. Raises ValueError for no pairs."""
        return collate(examples, self.source_special, self.decoder.special)

    def features(self, source: Source, source_lengths: Lengths, target: Tokens, forcing: float = 1.0) -> Any:
        """What stands before the output layer, for the right-shifted target `(batch, position)` that begins with the
        start.
        `forcing` is the probability of teacher forcing at each step."""
        return decoded(self.decoder, self.encoder(source, source_lengths), target, forcing)

    def forward(
        self,
        source: Source,
        source_lengths: Lengths,
        target: Tokens,
        *,
        forcing: float = 1.0,
    ) -> Float[Tensor, "batch position vocabulary"]:
        """Logits `(batch, position, vocabulary)` of the token after each target token. Their loss without storing them
        is `decoder.output.loss(features, expected)`."""
        return self.decoder.output(self.features(source, source_lengths, target, forcing))


def decoded(decoder: Decoder, memory: Memory, target: Tokens, forcing: float) -> Any:
    """What stands before a decoder's output layer, for the right-shifted target, given what it may read."""
    state = decoder.start(memory)
    return unroll(decoder, target, state, forcing) if forcing < 1.0 else decoder.features(target, state)
