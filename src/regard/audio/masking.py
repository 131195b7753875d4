"""SpecAugment without warping: Park, Chan, Zhang, Chiu, Zoph, Cubuk, Le 2019 (1904.08779)."""

from dataclasses import dataclass
from random import Random
from typing import Annotated

from pydantic import Field
from torch import Tensor

from regard.shapes import Float

Count = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, kw_only=True)
class Masking:
    """Masks of training features (section 2): `times` masks of 0 to `time` frames, each at most `share` of the frames,
    and `frequencies` masks of 0 to `frequency` bands, at random places. Masked features are 0, the mean.

    time: The largest number of frames of a mask.
    times: The number of masks of frames.
    frequency: The largest number of bands of a mask.
    frequencies: The number of masks of bands.
    share: The largest share of a sound's frames of a mask.
    """

    time: Count = 0
    times: Count = 1
    frequency: Count = 0
    frequencies: Count = 1
    share: Annotated[float, Field(ge=0, le=1)] = 0.2

    def __call__(
        self, features: Float[Tensor, "frame mel"], seed: int, epoch: int, index: int
    ) -> Float[Tensor, "frame mel"]:
        """The masked features, as a function of seed, epoch and index only."""
        if not (self.time * self.times or self.frequency * self.frequencies):
            return features
        draw = Random(
            f"masking/{seed}/{epoch}/{index}"
        )  # a string seed is hashed with SHA-512
        masked, (frames, mels) = features.clone(), features.shape
        for _ in range(self.times):
            width = draw.randint(0, min(self.time, int(self.share * frames)))
            first = draw.randint(0, frames - width)
            masked[first : first + width] = 0.0
        for _ in range(self.frequencies):
            width = draw.randint(0, min(self.frequency, mels))
            first = draw.randint(0, mels - width)
            masked[:, first : first + width] = 0.0
        return masked
