"""A trained Vision Transformer (Dosovitskiy 2021, 2010.11929) as what makes cells of an image, in place of
convolutions."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.models.vit import VitConfig, VitEncoder
from regard.shapes import Float


@dataclass(frozen=True)
class VitTrunk:
    """The Vision Transformer of the trained run in the folder `vit`. It stays as it is, or where it is not `frozen`
    learns with the rest. `sizes` are those of its model, looked up when training begins, so that the run that has them
    is whole without that folder."""

    vit: str
    frozen: bool = True
    sizes: VitConfig | None = None

    @property
    def known(self) -> VitConfig:
        """Raises ValueError for sizes that are not known yet."""
        if self.sizes is None:
            raise ValueError(f"the sizes of the ViT in {self.vit} are not known; give VitTrunk its VitConfig")
        return self.sizes

    def side(self, image: int) -> int:
        """Patches along a side of so many pixels."""
        return image // self.known.patch

    def encoder(self) -> "VitGrid":
        """With weights that are still to be filled in."""
        return (FrozenVitGrid if self.frozen else VitGrid)(VitEncoder(self.known))


class VitGrid(nn.Module):
    """The states of the patches after the last norm are the memory, row by row; its summary is that of [CLS], or where
    there is none the patches' mean. Unlike a cell of `GridEncoder`, a patch has read the whole image."""

    def __init__(self, vit: VitEncoder):
        super().__init__()
        self.vit = vit
        self.memory_width = self.summary_width = vit.norm.normalized_shape[0]

    def forward(self, images: Float[Tensor, "batch channel height width"]) -> Memory:
        """Images `(batch, channel, height, width)` -> a memory of `(batch, patch, memory_width)`. Raises ValueError for
        sides that no whole number of patches fills, or other channels."""
        states, marks = self.vit(images), len(self.vit.marks)
        patches = states[:, marks:]
        return Memory(patches, patches, summary=states[:, 0] if marks else patches.mean(1))


class FrozenVitGrid(VitGrid):
    """The same of a trained `vit` that stays as it is: no gradient reaches it, and it is in evaluation, without
    dropout, whatever is around it."""

    def __init__(self, vit: VitEncoder):
        super().__init__(vit.requires_grad_(False).eval())

    def train(self, mode: bool = True) -> "FrozenVitGrid":
        """As of any module, but the Vision Transformer stays in evaluation."""
        super().train(mode)
        self.vit.eval()
        return self

    @torch.no_grad()
    def forward(self, images: Float[Tensor, "batch channel height width"]) -> Memory:
        return super().forward(images)
