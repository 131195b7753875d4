"""Spoken digits by a formant synthesiser: harmonics of a voice and filtered noise.

A digit is a sequence of phones. A vowel has three formants, between which the sound glides; a consonant is noise in a
band, or a weak voice. Speakers differ in pitch, in the length of their vocal tract, which scales all formants, and in
their pace.
"""

from dataclasses import dataclass
from functools import lru_cache
from random import Random

import numpy as np
from jaxtyping import Float

Samples = Float[np.ndarray, " sample"]


@dataclass(frozen=True)
class Phone:
    """Formants in hertz, the loudness of the voice and of the noise, the band of the noise in hertz, and seconds."""

    formants: tuple[int, int, int]
    voice: float
    noise: float = 0.0
    band: tuple[int, int] = (0, 4000)
    seconds: float = 0.09


PHONES = {
    "a": Phone((730, 1090, 2440), 1.0),
    "e": Phone((530, 1840, 2480), 1.0),
    "i": Phone((280, 2250, 2900), 1.0),
    "I": Phone((400, 1990, 2550), 1.0, seconds=0.07),
    "o": Phone((570, 840, 2410), 1.0),
    "u": Phone((310, 870, 2250), 0.9),
    "@": Phone((500, 1500, 2500), 0.8, seconds=0.06),
    "r": Phone((420, 1200, 1600), 0.6, seconds=0.06),
    "w": Phone((300, 650, 2200), 0.5, seconds=0.06),
    "n": Phone((250, 1500, 2500), 0.35, seconds=0.07),
    "v": Phone((280, 1100, 2300), 0.25, 0.08, (1000, 3800), 0.05),
    "z": Phone((250, 1600, 2500), 0.2, 0.25, (2800, 4000), 0.07),
    "f": Phone((300, 1100, 2300), 0.0, 0.12, (1200, 3900), 0.09),
    "T": Phone((300, 1400, 2500), 0.0, 0.08, (1800, 3900), 0.07),
    "s": Phone((300, 1700, 2500), 0.0, 0.4, (2700, 4000), 0.1),
    "k": Phone((300, 1800, 2400), 0.0, 0.3, (1500, 2600), 0.03),
    "t": Phone((300, 1800, 2600), 0.0, 0.35, (2400, 4000), 0.03),
    "_": Phone((300, 1500, 2500), 0.0, seconds=0.04),
}
DIGITS = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
]
SOUNDS = [
    "ziro",
    "wan",
    "tuu",
    "Trii",
    "foor",
    "fav_",
    "sI_ks",
    "sev@n",
    "eI_t",
    "nain",
]
BANDWIDTHS = (80.0, 110.0, 160.0)
STEP = 40
"""Samples between two sets of formants."""


def spoken(digit: int, rate: int, speaker: int, recording: int) -> Samples:
    """A recording of a digit by a speaker, at most 0.9 at its loudest; a function of its arguments only."""
    voice, own = (
        Random(f"speaker/{speaker}"),
        Random(f"recording/{speaker}/{digit}/{recording}"),
    )
    pitch, tract, pace = (
        voice.uniform(90, 220),
        voice.uniform(0.9, 1.15),
        voice.uniform(0.85, 1.2),
    )
    pitch, pace = pitch * own.uniform(0.94, 1.06), pace * own.uniform(0.9, 1.1)
    phones = [PHONES[each] for each in SOUNDS[digit]]
    counts = [
        max(STEP, round(each.seconds * pace * own.uniform(0.85, 1.15) * rate))
        for each in phones
    ]
    edges = np.cumsum([0, *counts])
    noise = np.random.default_rng(own.getrandbits(32)).standard_normal(edges[-1])
    found = _voiced(phones, edges, rate, pitch, tract)
    for phone, first, last in zip(phones, edges, edges[1:], strict=False):
        if phone.noise:
            found[first:last] += (
                phone.noise
                * _band(noise[first:last], phone.band, rate)
                * np.hanning(last - first)
            )
    return 0.9 * found / abs(found).max()


def _voiced(
    phones: list[Phone], edges: np.ndarray, rate: int, pitch: float, tract: float
) -> Samples:
    """Harmonics of a falling pitch, each as loud as the formants make it: the product of the gains of three
    resonances."""
    time = np.arange(edges[-1])
    middles = (edges[1:] + edges[:-1]) / 2
    coarse = np.arange(0, edges[-1] + STEP, STEP)
    formants = [
        tract * np.interp(coarse, middles, [each.formants[n] for each in phones])
        for n in range(3)
    ]
    loud = np.interp(coarse, middles, [each.voice for each in phones])
    fundamental = pitch * np.linspace(1.08, 0.9, len(time))
    phase = 2 * np.pi * np.cumsum(fundamental) / rate
    found = np.zeros(len(time))
    for harmonic in range(1, int(rate / 2 / (1.08 * pitch))):
        frequency = harmonic * pitch
        gain = (
            np.prod(
                [
                    _gain(frequency, f, b)
                    for f, b in zip(formants, BANDWIDTHS, strict=True)
                ],
                0,
            )
            / harmonic
        )
        found += np.interp(time, coarse, gain * loud) * np.sin(harmonic * phase)
    return found


def _gain(frequency: float, formant: np.ndarray, bandwidth: float) -> np.ndarray:
    return formant**2 / np.sqrt(
        (formant**2 - frequency**2) ** 2 + (bandwidth * frequency) ** 2
    )


def _band(noise: Samples, band: tuple[int, int], rate: int) -> Samples:
    spectrum, at = np.fft.rfft(noise), np.fft.rfftfreq(len(noise), 1 / rate)
    return np.fft.irfft(spectrum * ((at >= band[0]) & (at <= band[1])), len(noise))


@lru_cache(1)
def recordings(
    rate: int, speakers: int, each: int
) -> tuple[tuple[int, int, int, Samples], ...]:
    """(speaker, digit, recording, samples) of all digits."""
    return tuple(
        (speaker, digit, recording, spoken(digit, rate, speaker, recording))
        for speaker in range(speakers)
        for digit in range(10)
        for recording in range(each)
    )
