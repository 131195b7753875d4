"""A trained Vision Transformer (Dosovitskiy 2021, 2010.11929) as the image encoder of a captioner."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.models.vit import VitConfig, VitEncoder
from regard.shapes import Float


@dataclass(frozen=True)
class VitTrunk:
    """The Vision Transformer of the trained run in the folder `vit`. It is kept fixed if `frozen`, else trained
    further. `sizes` are those of its model; training fills them in, so that a trained run needs that folder no
    longer."""

    vit: str
    frozen: bool = True
    sizes: VitConfig | None = None

    @property
    def known(self) -> VitConfig:
        """The sizes. Raises ValueError if they are not known yet."""
        if self.sizes is None:
            raise ValueError(
                f"the sizes of the ViT in {self.vit} are not known; give VitTrunk its VitConfig"
            )
        return self.sizes

    def side(self, image: int) -> int:
        """Patches along a side of `image` pixels."""
        return image // self.known.patch

    def encoder(self) -> "VitGrid":
        """The encoder, whose weights are filled in later."""
        return (FrozenVitGrid if self.frozen else VitGrid)(VitEncoder(self.known))


class VitGrid(nn.Module):
    """The patches' states after the last norm are the memory, row by row. The summary is the state of [CLS], or the
    patches' mean without one. Unlike a cell of `GridEncoder`, a patch has read the whole image."""

    def __init__(self, vit: VitEncoder):
        super().__init__()
        self.vit = vit
        self.memory_width = self.summary_width = vit.norm.normalized_shape[0]

    def forward(self, images: Float[Tensor, "batch channel height width"]) -> Memory:
        """Images `(batch, channel, height, width)` -> a memory of `(batch, patch, memory_width)`. Raises ValueError as
        `Patches` does."""
        states, marks = self.vit(images), len(self.vit.marks)
        patches = states[:, marks:]
        return Memory(
            patches, patches, summary=states[:, 0] if marks else patches.mean(1)
        )


class FrozenVitGrid(VitGrid):
    """A `VitGrid` with a fixed `vit`, without gradient and always in evaluation mode."""

    def __init__(self, vit: VitEncoder):
        super().__init__(vit.requires_grad_(False).eval())

    def train(self, mode: bool = True) -> "FrozenVitGrid":
        """Set the mode of the rest; the Vision Transformer stays in evaluation mode."""
        super().train(mode)
        self.vit.eval()
        return self

    @torch.no_grad()
    def forward(self, images: Float[Tensor, "batch channel height width"]) -> Memory:
        return super().forward(images)
