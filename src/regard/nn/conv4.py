"""One vector of an image, by convolutions (Vinyals 2016, 1606.04080, section 4.1.1)."""

from einops import rearrange
from torch import Tensor, nn

from regard.shapes import Float

STAGES = 4


class ImageCode(nn.Module):
    """Four times a 3 x 3 convolution, batch normalisation, ReLU and the largest of 2 x 2; then a linear map.

    Args:
        side: of the images in pixels, at least 16.
        channels: of the images.
        filters: of each convolution; 64 in the paper.
        width: of the vector.
    """

    def __init__(self, side: int, channels: int, filters: int, width: int):
        super().__init__()
        widths = [channels] + [filters] * (STAGES - 1)
        self.stages = nn.Sequential(*(stage(each, filters) for each in widths))
        self.output = nn.Linear(filters * (side >> STAGES) ** 2, width)

    def forward(self, pixels: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch code"]:
        """Images `(batch, channel, side, side)` -> `(batch, width)`."""
        return self.output(rearrange(self.stages(pixels), "b c h w -> b (c h w)"))


def stage(channels: int, filters: int) -> nn.Sequential:
    """One of the four; what a bias would add, the normalisation takes away. The largest of 2 x 2 and ReLU can be
    exchanged, and ReLU has a quarter to do after it."""
    convolution = nn.Conv2d(channels, filters, 3, padding=1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(filters), nn.MaxPool2d(2), nn.ReLU())
