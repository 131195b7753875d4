"""Audio files, resampling, log-mel features and their masking."""

import math
import re
import wave
from dataclasses import dataclass
from importlib import import_module
from io import BufferedReader, BytesIO
from pathlib import Path
from random import Random
from typing import Annotated, Any

import numpy as np
import torch
from jaxtyping import Float, Float32
from pydantic import Field, NonNegativeFloat, NonNegativeInt
from torch import Tensor

from regard.errors import InputError
from regard.extras import check_file, how_to_install

SUFFIXES = frozenset((".wav", ".flac", ".ogg", ".mp3", ".aiff", ".aif"))
LONGEST = 60.0
"""The most seconds of a sound by default."""
LEAST_RATE, MOST_RATE = 1_000, 384_000
"""Samples a second that a header may claim."""
PADDING = 1_000
"""The least samples of silence behind a sound that is resampled."""
FLOOR, LEAST_DEVIATION = 1e-7, 1e-3
"""Added to the power of each band, and the least divisor: silence becomes zeros."""
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True, eq=False)
class Sound:
    """Samples of one channel, float32 from -1 to 1, and their number a second."""

    samples: Float32[np.ndarray, " sample"]
    rate: int

    @property
    def seconds(self) -> float:
        """The duration."""
        return len(self.samples) / self.rate


def read_audio(
    audio: Path | str | bytes, longest: float = LONGEST, location: str = "the audio"
) -> Sound:
    """Read the sound of a file and average its channels.

    WAV files with integers of 16 bits are read by Python's standard library, and divided
    by 2^15; everything else is read by soundfile.

    Args:
        audio: The path of the file, or its content.
        longest: The most seconds.
        location: What to call the content in an error.

    Raises:
        InputError: The file is missing, empty, no audio, cut short, longer than
            `longest` seconds, or needs soundfile, which is not installed.
    """
    if isinstance(audio, bytes):
        return _decode(BytesIO(audio), location, longest)
    with check_file(audio, "audio").open("rb") as file:
        return _decode(file, str(audio), longest)


def encode_audio(sound: Sound) -> bytes:
    """Encode a sound as a WAV file of 16 bits a sample."""
    content = BytesIO()
    integers = (sound.samples.clip(-1, 1 - 2**-15) * 32768).round().astype("<i2")
    with wave.open(content, "wb") as file:
        file.setparams((1, 2, sound.rate, len(sound.samples), "NONE", ""))
        file.writeframes(integers.tobytes())
    return content.getvalue()


def check_length(seconds: float, longest: float, location: str) -> None:
    """Raise InputError for more than `longest` seconds."""
    if seconds > longest:
        raise InputError(
            f"{location}: {seconds:,.0f} seconds of sound, but the model takes at most "
            f"{longest:g}; cut it into parts (or raise audio.longest before training)"
        )


def _decode(file: BufferedReader | BytesIO, location: str, longest: float) -> Sound:
    if not file.read(1):
        raise InputError(f"{location}: is empty, 0 bytes; expected audio")
    file.seek(0)
    try:
        sound = _read_wave(file, location, longest)
        if sound is None:
            file.seek(0)
            sound = _read_by_soundfile(file, location, longest)
    except InputError:
        raise
    except Exception as error:  # a decoder may raise anything for broken bytes
        reason = " ".join(str(error).split()) or "it ends within a part of it"
        raise InputError(
            f"{location}: broken, truncated or unusual audio ({reason}); save it as WAV "
            "with 16 bits"
        ) from error
    if not (len(sound.samples) and np.isfinite(sound.samples).all()):
        raise InputError(
            f"{location}: has no samples, or some that are not finite; save it again"
        )
    return sound


def _check_header(
    location: str, channels: int, rate: int, count: int, longest: float
) -> None:
    if channels < 1 or not LEAST_RATE <= rate <= MOST_RATE:
        raise InputError(
            f"{location}: {channels} channels, {rate:,} samples a second; expected at "
            f"least 1 channel, and {LEAST_RATE:,} to {MOST_RATE:,} samples"
        )
    check_length(count / rate, longest, location)


def _read_wave(
    file: BufferedReader | BytesIO, location: str, longest: float
) -> Sound | None:
    """Read a WAV file with integers of 16 bits; return None for other audio."""
    try:
        with wave.open(file) as opened:
            channels, width, rate, expected = opened.getparams()[:4]
            _check_header(
                location,
                channels,
                rate,
                expected,
                longest,
            )
            if width != 2:
                return None
            samples = np.frombuffer(opened.readframes(expected), "<i2")
    except wave.Error as error:
        if re.match("unknown format|file does not start|not a WAVE", str(error)):
            return None
        raise
    if len(samples) != expected * channels:
        raise InputError(
            f"{location}: cut short, its header promises {expected:,} samples but it "
            f"has {len(samples) // channels:,}; save it again"
        )
    scaled = (samples / 32768.0).astype(np.float32).reshape(-1, channels)
    return Sound(scaled.mean(1, dtype=np.float32), rate)


def _read_by_soundfile(
    file: BufferedReader | BytesIO, location: str, longest: float
) -> Sound:
    try:
        soundfile: Any = import_module("soundfile")
    except ImportError as error:
        raise InputError(
            f"{location}: is no WAV file with 16 bits; other audio is read by soundfile, "
            f"which is not installed: {how_to_install('soundfile')}"
        ) from error
    with soundfile.SoundFile(file) as source:
        rate = source.samplerate
        _check_header(
            location,
            source.channels,
            rate,
            source.frames,
            longest,
        )
        samples = source.read(dtype="float32", always_2d=True)
    return Sound(samples.mean(1, dtype=np.float32), rate)


def resample(sound: Sound, rate: int) -> Sound:
    """Convert a sound to `rate` samples a second by its Fourier transform.

    Frequencies above half of the lower rate are removed. Silence is added behind the
    sound, so that its length at both rates is a whole number of samples; the result has
    ceil(rate / old rate x length) samples.
    """
    if rate == sound.rate:
        return sound
    divisor = math.gcd(rate, sound.rate)
    old, new = sound.rate // divisor, rate // divisor
    units = len(sound.samples) // old + 1 + PADDING // old
    spectrum = np.fft.rfft(sound.samples, units * old)
    samples = np.fft.irfft(spectrum, units * new) * (new / old)
    count = count_resampled(sound, rate)
    return Sound(samples[:count].astype(np.float32), rate)


def count_resampled(sound: Sound, rate: int) -> int:
    """Return the number of samples that `resample` gives."""
    return -(-len(sound.samples) * rate // sound.rate)


@dataclass(frozen=True, kw_only=True)
class LogMel:
    """Log-mel features `(frame, mels)` of samples in -1 to 1, a frame each `hop`.

    Frame i is a window of w = round(window rate) samples, the first of which is sample
    i h - N/2 + floor((N - w) / 2), with h = round(hop rate), N the least power of two
    of at least w, and zeros outside of the sound. P_i[k] = |sum_n hann(n) x_n exp(-2 pi
    j k n / N)|^2 over the window's samples x_0 to x_(w-1), with the periodic window
    hann(n) = (1 - cos(2 pi n / w)) / 2. A sound of s samples has 1 + floor(s / h)
    frames. Band m is sum_k P_i[k] t_m(k rate / N) with a triangle t_m of height 1
    between the frequencies f_(m-1), f_m and f_(m+1), which are evenly spaced from
    `lowest` to `highest` on the scale mel(f) = 2595 log10(1 + f / 700). The feature is
    ln(band + 1e-7).
    """

    rate: Annotated[int, Field(ge=LEAST_RATE, le=MOST_RATE)] = 16_000
    """The samples a second that every sound is resampled to."""
    window: Annotated[float, Field(ge=0.002, le=1)] = 0.025
    """The seconds of a frame's window."""
    hop: Annotated[float, Field(ge=0.001, le=1)] = 0.01
    """The seconds from one frame to the next."""
    mels: Annotated[int, Field(ge=2, le=256)] = 40
    """The number of bands."""
    lowest: NonNegativeFloat = 60.0
    """The lowest frequency of the bands, in hertz."""
    highest: Positive | None = None
    """The highest frequency of the bands, in hertz; by default half the rate."""
    standardised: bool = True
    """Give each band of a sound the mean 0 and the deviation 1."""
    longest: Positive = LONGEST
    """The most seconds of a sound; longer ones are refused."""

    def __post_init__(self) -> None:
        if not self.lowest < self.highest_frequency <= self.rate / 2:
            raise ValueError(
                f"audio.lowest is {self.lowest:g} and audio.highest "
                f"{self.highest_frequency:g}; expected lowest < highest <= rate / 2, "
                f"{self.rate / 2:g}"
            )
        if not self.filters().sum(0).min() > 0:
            raise ValueError(
                f"audio.mels is {self.mels}, so that a band has no frequency; lower it "
                "or raise window"
            )

    @property
    def highest_frequency(self) -> float:
        """The upper end of the last band, in hertz."""
        return self.rate / 2 if self.highest is None else self.highest

    @property
    def hop_samples(self) -> int:
        """The samples between frames."""
        return round(self.hop * self.rate)

    @property
    def window_samples(self) -> int:
        """The samples in a window."""
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
        """Return the number of frames of so many samples of `rate`."""
        return 1 + samples // self.hop_samples

    def filters(self) -> Float[Tensor, "frequency mel"]:
        """Return the triangles of all bands, in float64."""
        limits = np.array([self.lowest, self.highest_frequency])
        first, last = 2595 * np.log10(1 + limits / 700)
        pitches = np.linspace(first, last, self.mels + 2)
        edges = 700 * (10 ** (pitches / 2595) - 1)
        size = self.size
        frequencies = np.arange(size // 2 + 1) * self.rate / size
        starts, peaks, ends = edges[:-2], edges[1:-1], edges[2:]
        column = frequencies[:, None]
        rising = (column - starts) / (peaks - starts)
        falling = (ends - column) / (ends - peaks)
        triangles = np.minimum(rising, falling)
        return torch.from_numpy(np.clip(triangles, 0, None))

    def __call__(
        self, samples: Float[Tensor, "*batch sample"]
    ) -> Float[Tensor, "*batch frame mel"]:
        """Compute the features of samples of `rate` a second, in their dtype."""
        width = self.window_samples
        window = torch.hann_window(width, dtype=samples.dtype, device=samples.device)
        spectrum = torch.stft(
            samples,
            self.size,
            self.hop_samples,
            width,
            window,
            pad_mode="constant",
            return_complex=True,
        )
        power = spectrum.real.square() + spectrum.imag.square()
        features = (power.mT @ self.filters().to(power) + FLOOR).log()
        if not self.standardised:
            return features
        centered = features - features.mean(-2, keepdim=True)
        deviation = centered.square().mean(-2, keepdim=True).sqrt()
        return centered / deviation.clamp(min=LEAST_DEVIATION)


@dataclass(frozen=True, kw_only=True)
class FeatureMasking:
    """SpecAugment's masks of training features (Park 2019, 1904.08779, section 2).

    Masked features are 0, the mean.
    """

    time: NonNegativeInt = 0
    """The largest number of frames of a mask."""
    times: NonNegativeInt = 1
    """The number of masks of frames."""
    frequency: NonNegativeInt = 0
    """The largest number of bands of a mask."""
    frequencies: NonNegativeInt = 1
    """The number of masks of bands."""
    share: Annotated[float, Field(ge=0, le=1)] = 0.2
    """The largest share of a sound's frames of a mask."""

    def __call__(
        self, features: Float[Tensor, "frame mel"], seed: int, epoch: int, index: int
    ) -> Float[Tensor, "frame mel"]:
        """Mask features, as a function of seed, epoch and index only."""
        if not (self.time * self.times or self.frequency * self.frequencies):
            return features
        random = Random(f"masking/{seed}/{epoch}/{index}")
        masked = features.clone()
        frames, mels = features.shape
        longest = min(self.time, int(self.share * frames))
        masks = [(masked, longest)] * self.times
        masks += [(masked.mT, min(self.frequency, mels))] * self.frequencies
        for rows, limit in masks:
            width = random.randint(0, limit)
            first = random.randint(0, len(rows) - width)
            rows[first : first + width] = 0.0
        return masked
