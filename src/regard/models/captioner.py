"""An image encoder with any decoder."""

from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn

from regard.models.sizes import Share, Size
from regard.models.vit_trunk import VitGrid, VitTrunk
from regard.nn.decoders.protocol import Decoder
from regard.nn.encoder_decoder import decoded
from regard.nn.encoders.grid import GridEncoder, cells_of
from regard.shapes import Float, Tokens

Images = Float[Tensor, "batch channel height width"]


@dataclass(frozen=True, kw_only=True)
class Eye:
    """The part of every captioner's configuration that describes its image encoder: the side of its images, their
    channels, and the widths of its convolution stages, each of which halves the sides. A `trunk`, a trained Vision
    Transformer, replaces the stages; side and channels are then the trunk's."""

    image: Size = 64
    channels: Literal[1, 3] = 3
    stages: tuple[Size, ...] = (32, 64, 128)
    dropout: Share = 0.3
    trunk: VitTrunk | None = None

    def __post_init__(self) -> None:
        if not self.stages and self.trunk is None:
            raise ValueError("stages is empty; name the width of at least one")

    @property
    def side(self) -> int:
        """Cells along one side of the image."""
        return (
            cells_of(self.image, len(self.stages))
            if self.trunk is None
            else self.trunk.side(self.image)
        )

    def encoder(self) -> GridEncoder | VitGrid:
        """The image encoder, with fresh weights."""
        return (
            GridEncoder(self.channels, self.stages, self.side)
            if self.trunk is None
            else self.trunk.encoder()
        )


class Captioner(nn.Module):
    """p(caption | image) as the product over positions of softmax(output(features))."""

    def __init__(self, encoder: nn.Module, decoder: Decoder):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def features(self, images: Images, target: Tokens, forcing: float = 1.0) -> Any:
        """The input of the output layer, for a right-shifted target `(batch, position)` that begins with the start
        token.

        `forcing` is the probability of teacher forcing at each step.
        """
        return decoded(self.decoder, self.encoder(images), target, forcing)

    def forward(
        self, images: Images, target: Tokens, *, forcing: float = 1.0
    ) -> Float[Tensor, "batch position vocabulary"]:
        """Logits `(batch, position, vocabulary)` of the token after each target token."""
        return self.decoder.output(self.features(images, target, forcing))
