"""Log-mel features."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from regard.audio.files import LEAST_RATE, LONGEST, MOST_RATE, check_length
from regard.audio.resampling import resampled, resampled_length
from regard.audio.sound import Sound
from regard.shapes import Float

FLOOR, LEAST_DEVIATION = 1e-7, 1e-3
"""Added to the power of each band, and the least deviation that bands are divided by: silence becomes zeros."""
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Bands = Annotated[int, Field(ge=2, le=256)]


@dataclass(frozen=True, kw_only=True)
class LogMel:
    """Samples in -1 to 1, resampled to `rate` a second -> features `(frame, mels)`, one frame each `hop` seconds.

    Frame i is a window of w = round(window rate) samples, the first of which is sample i h - N/2 + floor((N - w) /
    2), with h = round(hop rate), N the least power of two of at least w, and zeros outside of the sound. P_i[k] =
    |sum_n hann(n) x_n exp(-2 pi j k n / N)|^2 over the window's samples x_0 to x_(w-1), with the periodic window
    hann(n) = (1 - cos(2 pi n / w)) / 2 (`torch.stft`, centered, constant padding). A sound of s samples has 1 +
    floor(s / h) frames. Band m is sum_k P_i[k] t_m(k rate / N) with a triangle t_m of height 1 between the
    frequencies f_(m-1), f_m and f_(m+1), which are evenly spaced from `lowest` to `highest` hertz (None: rate / 2) on
    the scale mel(f) = 2595 log10(1 + f / 700). The feature is ln(band + 1e-7); with `standardised` the mean of each
    band over the sound is subtracted, and the rest is divided by the band's deviation, at least 1e-3.

    Sounds of more than `longest` seconds are refused.

    rate: The samples a second that every sound is resampled to.
    window: The seconds of a frame's window.
    hop: The seconds from one frame to the next.
    lowest: The lowest frequency of the bands, in hertz.
    highest: The highest frequency of the bands, in hertz; by default half the rate.
    """

    rate: Annotated[int, Field(ge=LEAST_RATE, le=MOST_RATE)] = 16_000
    window: Positive = 0.025
    hop: Positive = 0.01
    mels: Bands = 40
    """The number of bands."""
    lowest: Annotated[float, Field(ge=0)] = 60.0
    highest: Positive | None = None
    standardised: bool = True
    longest: Positive = LONGEST

    def __post_init__(self) -> None:
        if not self.lowest < self.highest_frequency <= self.rate / 2:
            raise ValueError(
                f"audio.lowest is {self.lowest:g} and audio.highest {self.highest_frequency:g}; expected lowest < "
                f"highest <= rate / 2, {self.rate / 2:g}"
            )
        if self.hop_samples < 1 or self.window_samples < 2:
            raise ValueError(
                f"audio.hop {self.hop} and audio.window {self.window} have no samples; raise them"
            )
        if not self.filters().sum(0).min() > 0:
            raise ValueError(
                f"audio.mels is {self.mels}, so that a band has no frequency; lower it or raise window"
            )

    @property
    def highest_frequency(self) -> float:
        """The upper end of the last band, in hertz."""
        return self.rate / 2 if self.highest is None else self.highest

    @property
    def hop_samples(self) -> int:
        """Samples between frames."""
        return round(self.hop * self.rate)

    @property
    def window_samples(self) -> int:
        """Samples in a window."""
        return round(self.window * self.rate)

    @property
    def size(self) -> int:
        """The size of the Fourier transform."""
        return 1 << max(1, (self.window_samples - 1).bit_length())

    @property
    def seconds(self) -> float:
        """The exact time between frames."""
        return self.hop_samples / self.rate

    def frames(self, samples: int) -> int:
        """The number of frames of so many samples of `rate`."""
        return 1 + samples // self.hop_samples

    def frames_of(self, sound: Sound, place: str) -> int:
        """The number of frames of a sound of any rate. Raises InputError as `sound`."""
        check_length(sound.seconds, self.longest, place)
        return self.frames(resampled_length(sound, self.rate))

    def filters(self) -> Float[Tensor, "frequency mel"]:
        """The triangles of all bands, float64."""
        return _triangles(
            self.rate, self.size, self.mels, self.lowest, self.highest_frequency
        )

    def sound(self, sound: Sound, place: str) -> Sound:
        """The sound with `rate` samples a second. Raises InputError for one longer than `longest`; messages call it
        `place`."""
        check_length(sound.seconds, self.longest, place)
        return resampled(sound, self.rate)

    def __call__(
        self, samples: Float[Tensor, "*batch sample"]
    ) -> Float[Tensor, "*batch frame mel"]:
        """The features of samples of `rate` a second, in their dtype."""
        window = torch.hann_window(
            self.window_samples, dtype=samples.dtype, device=samples.device
        )
        spectrum = torch.stft(
            samples,
            self.size,
            self.hop_samples,
            self.window_samples,
            window,
            center=True,
            pad_mode="constant",
            return_complex=True,
        )
        power = spectrum.real.square() + spectrum.imag.square()
        found = (power.mT @ self.filters().to(power) + FLOOR).log()
        if not self.standardised:
            return found
        centred = found - found.mean(-2, keepdim=True)
        return centred / centred.square().mean(-2, keepdim=True).sqrt().clamp(
            min=LEAST_DEVIATION
        )


@lru_cache(8)
def _triangles(
    rate: int, size: int, mels: int, lowest: float, highest: float
) -> Tensor:
    first, last = 2595 * np.log10(1 + np.array([lowest, highest]) / 700)
    edges = 700 * (10 ** (np.linspace(first, last, mels + 2) / 2595) - 1)
    at = (np.arange(size // 2 + 1) * rate / size)[:, None]
    rising = (at - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - at) / (edges[2:] - edges[1:-1])
    return torch.from_numpy(np.clip(np.minimum(rising, falling), 0, None))
