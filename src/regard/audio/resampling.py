"""Another number of samples a second."""

import math

import numpy as np
from jaxtyping import Float

from regard.audio.sound import Sound

ZEROS = 16
"""Zero crossings of the sinc on each side that its window keeps."""
ROLL_OFF = 0.95
"""The highest frequency that passes, as a share of half the lower of both rates."""
ROWS = 1 << 14


def resampled(sound: Sound, rate: int) -> Sound:
    """The sound with `rate` samples a second, limited to the band of both (Smith, Digital Audio Resampling).

    Sample n of the result is sum_k x_k h(n / r - k), where r is the new rate by the old, h(t) = b sinc(b t) cos^2(pi b
    t / (2 Z)) within |t| <= Z / b, b = 0.95 min(1, r) and Z = 16. It has ceil(r length) samples; outside of the sound
    x is 0.
    """
    if rate == sound.rate:
        return sound
    count = resampled_length(sound, rate)
    band = ROLL_OFF * min(1.0, rate / sound.rate)
    reach = math.ceil(ZEROS / band)
    padded = np.pad(sound.samples.astype(np.float64), (reach, reach + 1))
    parts = [
        _read(
            padded,
            np.arange(first, min(first + ROWS, count)) * (sound.rate / rate),
            band,
            reach,
        )
        for first in range(0, count, ROWS)
    ]
    return Sound(np.concatenate(parts).astype(np.float32), rate)


def resampled_length(sound: Sound, rate: int) -> int:
    """The number of samples that `resampled` gives."""
    return -(-len(sound.samples) * rate // sound.rate)


def _read(
    padded: Float[np.ndarray, " sample"],
    places: Float[np.ndarray, " place"],
    band: float,
    reach: int,
) -> Float[np.ndarray, " place"]:
    """The limited sound at places between samples, of samples with `reach` zeros before them."""
    first = np.floor(places).astype(np.int64)
    near = first[:, None] + np.arange(-reach + 1, reach + 1)
    distance = band * (places[:, None] - near)
    window = np.where(
        abs(distance) <= ZEROS, np.cos(np.pi * distance / (2 * ZEROS)) ** 2, 0.0
    )
    return (
        padded[np.minimum(near + reach, len(padded) - 1)]
        * band
        * np.sinc(distance)
        * window
    ).sum(1)
