"""Any grid of an image with any decoder."""

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
    """What every model that tells of images has: the side of its images and their channels, and what makes cells of
    them: stages of convolutions of these widths, each with half as many cells a side as before, or in their place a
    `trunk`, a trained Vision Transformer. Side and channels are then its own, and there are no stages."""

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
        return cells_of(self.image, len(self.stages)) if self.trunk is None else self.trunk.side(self.image)

    def encoder(self) -> GridEncoder | VitGrid:
        """With fresh weights."""
        return GridEncoder(self.channels, self.stages, self.side) if self.trunk is None else self.trunk.encoder()


class Captioner(nn.Module):
    """p(caption | image) as the product over positions of softmax(output(features))."""

    def __init__(self, encoder: nn.Module, decoder: Decoder):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def features(self, images: Images, target: Tokens, forcing: float = 1.0) -> Any:
        """What stands before the output layer, for the right-shifted target `(batch, position)` that begins with START.
        `forcing` is the probability of teacher forcing at each step."""
        return decoded(self.decoder, self.encoder(images), target, forcing)

    def forward(
        self, images: Images, target: Tokens, *, forcing: float = 1.0
    ) -> Float[Tensor, "batch position vocabulary"]:
        """Logits `(batch, position, vocabulary)` of the token after each of `target`."""
        return self.decoder.output(self.features(images, target, forcing))
