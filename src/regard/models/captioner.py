"""Any grid of an image with any decoder."""

from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn

from regard.decoders.protocol import Decoder
from regard.encoders.grid import GridEncoder, cells_of
from regard.models.encoder_decoder import decoded
from regard.models.sizes import Share, Size
from regard.shapes import Float, Tokens


@dataclass(frozen=True, kw_only=True)
class Eye:
    """What every model that tells of images has: the side of its images and their channels, and the widths of the
    stages that make cells of them, each half as many a side as before."""

    image: Size = 64
    channels: Literal[1, 3] = 3
    stages: tuple[Size, ...] = (32, 64, 128)
    dropout: Share = 0.3

    def __post_init__(self) -> None:
        if not self.stages:
            raise ValueError("stages is empty; name the width of at least one")

    @property
    def side(self) -> int:
        """Cells along one side of the image."""
        return cells_of(self.image, len(self.stages))

    def encoder(self) -> GridEncoder:
        """With fresh weights."""
        return GridEncoder(self.channels, self.stages, self.side)


class Captioner(nn.Module):
    """p(caption | image) as the product over positions of softmax(output(features))."""

    def __init__(self, encoder: nn.Module, decoder: Decoder):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def forward(
        self,
        images: Float[Tensor, "batch channel height width"],
        target: Tokens,
        *,
        forcing: float = 1.0,
        expected: Tokens | None = None,
        smoothing: float = 0.0,
    ) -> Any:
        """Logits `(batch, position, vocabulary)` of the token after each of `target (batch, position)`, which begins
        with START; with `expected (batch, position)`, the loss of these tokens as `Output.loss` gives it."""
        features = decoded(self.decoder, self.encoder(images), target, forcing)
        output = self.decoder.output
        return output(features) if expected is None else output.loss(features, expected, smoothing)
