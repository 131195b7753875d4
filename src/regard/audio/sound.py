"""Samples of one channel."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32


@dataclass(frozen=True, eq=False)
class Sound:
    """Samples (float32, -1 to 1) of one channel, and how many there are in a second."""

    samples: Float32[np.ndarray, " sample"]
    rate: int

    @property
    def seconds(self) -> float:
        """The duration."""
        return len(self.samples) / self.rate
