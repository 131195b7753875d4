"""An encoder of frames of sound with any decoder."""

from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn

from regard.models.sizes import Share, Size
from regard.nn.connectionist import Connectionist
from regard.nn.decoders.protocol import Decoder
from regard.nn.encoder_decoder import decoded
from regard.nn.encoders.frames import (
    FrameEncoder,
    Halving,
    HalvingConvolutions,
    Pyramid,
)
from regard.shapes import Float, Lengths, Tokens


@dataclass(frozen=True, kw_only=True)
class Ear:
    """The part of every recogniser's configuration that describes how its encoder halves time, once a stage. With
    `halving: convolution` the `stages` are widths of convolutions, with `pyramid` widths of bidirectional LSTMs, a
    direction. `ctc` is the weight of the loss of connectionist temporal classification on the encoder's states in
    training; that of the decoder's loss is 1 - `ctc`."""

    halving: Literal["convolution", "pyramid"] = "convolution"
    stages: tuple[Size, ...] = (32, 32)
    dropout: Share = 0.1
    ctc: Share = 0.0

    def __post_init__(self) -> None:
        if not self.stages:
            raise ValueError("stages is empty; name the width of at least one")

    def classification(self, width: int, vocabulary: int) -> Connectionist | None:
        """The part of the loss `ctc` for states of `width`, with fresh weights; None without this loss."""
        return Connectionist(width, vocabulary) if self.ctc else None

    def halved(self, features: int, width: int) -> Halving:
        """The part that halves time, with fresh weights; convolutions end with `width`."""
        if self.halving == "pyramid":
            return Pyramid(features, self.stages)
        return HalvingConvolutions(features, self.stages, width)


class Recogniser(nn.Module):
    """p(transcript | frames) as the product over positions of softmax(output(features)). `connectionist` is only for
    training."""

    def __init__(
        self,
        encoder: FrameEncoder,
        decoder: Decoder,
        connectionist: Connectionist | None = None,
    ):
        super().__init__()
        self.encoder, self.decoder, self.connectionist = encoder, decoder, connectionist

    def features(
        self,
        frames: Float[Tensor, "batch frame feature"],
        lengths: Lengths,
        target: Tokens,
        forcing: float = 1.0,
    ) -> Any:
        """The input of the output layer, for frames of `lengths (batch,)` and a right-shifted target `(batch,
        position)` that begins with the start token.

        `forcing` is the probability of teacher forcing at each step.
        """
        return decoded(self.decoder, self.encoder(frames, lengths), target, forcing)

    def forward(
        self,
        frames: Float[Tensor, "batch frame feature"],
        lengths: Lengths,
        target: Tokens,
        *,
        forcing: float = 1.0,
    ) -> Float[Tensor, "batch position vocabulary"]:
        """Logits `(batch, position, vocabulary)` of the token after each target token."""
        return self.decoder.output(self.features(frames, lengths, target, forcing))
