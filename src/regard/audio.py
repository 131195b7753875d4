"""Audio files, resampling, log-mel features and their masking."""

import math
import wave
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from io import BufferedReader, BytesIO
from pathlib import Path
from random import Random
from typing import Annotated, Any

import numpy as np
import torch
from jaxtyping import Float, Float32
from pydantic import Field
from torch import Tensor

from regard.errors import InputError
from regard.extras import how_to_install

SUFFIXES = frozenset((".wav", ".flac", ".ogg", ".mp3", ".aiff", ".aif"))
LONGEST = 60.0
"""The most seconds of a sound by default."""
LEAST_RATE, MOST_RATE = 1_000, 384_000
"""Samples a second that a header may claim."""
ZERO_CROSSINGS = 16
"""Zero crossings of the sinc on each side that its window keeps."""
ROLL_OFF = 0.95
"""The highest frequency that passes, as a share of half the lower of both rates."""
RESAMPLING_CHUNK = 1 << 14
FLOOR, LEAST_DEVIATION = 1e-7, 1e-3
"""Added to the power of each band, and the least divisor: silence becomes zeros."""
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, eq=False)
class Sound:
    """Samples of one channel, float32 from -1 to 1, and their number a second."""

    samples: Float32[np.ndarray, " sample"]
    rate: int

    @property
    def seconds(self) -> float:
        """The duration."""
        return len(self.samples) / self.rate


def read_audio(path: Path | str, longest: float = LONGEST) -> Sound:
    """Read the sound in a file and average its channels.

    WAV files with integers are read by Python's standard library, which are divided by
    2^(bits - 1); everything else is read by soundfile.

    Raises:
        InputError: The file is missing, empty, no audio, cut short, longer than
            `longest` seconds, or needs soundfile, which is not installed.
    """
    path = Path(path)
    if path.is_file():
        with path.open("rb") as file:
            return _decode(file, str(path), longest)
    if path.is_dir():
        raise InputError(f"{path}: is a directory; expected audio")
    problem = "is no regular file" if path.exists() else "no such file"
    raise InputError(f"{path}: {problem}; expected audio")


def decode_audio(
    content: bytes, longest: float = LONGEST, location: str = "the audio"
) -> Sound:
    """Decode the bytes of a file as `read_audio` does; messages name `location`."""
    return _decode(BytesIO(content), location, longest)


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
    header = file.read(12)
    file.seek(0)
    if not header:
        raise InputError(f"{location}: is empty, 0 bytes; expected audio")
    if header[:4] != b"RIFF" or header[8:] != b"WAVE":
        return _read_by_soundfile(file, location, longest, "is no WAV file")
    try:
        with wave.open(file) as wave_file:
            return _read_wave(wave_file, location, longest)
    except wave.Error as error:
        if not str(error).startswith("unknown format"):
            raise _broken_audio(location, error) from error
        file.seek(0)
        problem = "is a WAV file without integers"
        return _read_by_soundfile(file, location, longest, problem)
    except (EOFError, RuntimeError) as error:
        # RuntimeError: a chunk claims to end behind the file
        raise _broken_audio(location, error) from error


def _read_wave(file: wave.Wave_read, location: str, longest: float) -> Sound:
    channels, width, rate, expected = file.getparams()[:4]
    _check_header(location, channels, rate)
    if not 1 <= width <= 4:
        raise InputError(
            f"{location}: {8 * width} bits a sample; expected 8, 16, 24 or 32"
        )
    check_length(expected / rate, longest, location)
    content = file.readframes(expected)
    count, remainder = divmod(len(content), channels * width)
    if count != expected or remainder:
        raise InputError(
            f"{location}: cut short, its header promises {expected:,} samples but it "
            f"has {count:,}; save it again"
        )
    if not expected:
        raise InputError(f"{location}: has no samples; expected audio")
    samples = parse_integers(content, width).reshape(-1, channels)
    return Sound(samples.mean(1, dtype=np.float32), rate)


def parse_integers(content: bytes, width: int) -> Float32[np.ndarray, " sample"]:
    """Parse a WAV file's integers of `width` bytes and divide them by 2^(bits - 1)."""
    if width == 1:
        return (np.frombuffer(content, np.uint8).astype(np.float32) - 128) / 128
    if width == 3:
        padded = np.zeros((len(content) // 3, 4), np.uint8)
        padded[:, 1:] = np.frombuffer(content, np.uint8).reshape(-1, 3)
        content, width = padded.tobytes(), 4
    integers = np.frombuffer(content, f"<i{width}")
    return (integers / float(1 << (8 * width - 1))).astype(np.float32)


def _check_header(location: str, channels: int, rate: int) -> None:
    if channels < 1 or not LEAST_RATE <= rate <= MOST_RATE:
        raise InputError(
            f"{location}: {channels} channels, {rate:,} samples a second; expected at "
            f"least 1 channel, and {LEAST_RATE:,} to {MOST_RATE:,} samples"
        )


def _read_by_soundfile(
    file: BufferedReader | BytesIO, location: str, longest: float, problem: str
) -> Sound:
    try:
        soundfile: Any = import_module("soundfile")
    except ImportError as error:
        raise InputError(
            f"{location}: {problem}; other audio is read by soundfile, which is not "
            f"installed: {how_to_install('soundfile')}"
        ) from error
    try:
        with soundfile.SoundFile(file) as source:
            rate = source.samplerate
            _check_header(location, source.channels, rate)
            check_length(source.frames / rate, longest, location)
            samples = source.read(dtype="float32", always_2d=True)
    except InputError:
        raise
    except Exception as error:  # a decoder may raise anything for broken bytes
        raise _broken_audio(location, error) from error
    if not len(samples):
        raise InputError(f"{location}: has no samples; expected audio")
    if not np.isfinite(samples).all():
        raise InputError(f"{location}: has samples that are not finite; save it again")
    return Sound(samples.mean(1, dtype=np.float32), rate)


def _broken_audio(location: str, error: Exception) -> InputError:
    reason = " ".join(str(error).split()) or "it ends within a part of it"
    return InputError(
        f"{location}: broken, truncated or unusual audio ({reason}); save it as WAV"
    )


def resample(sound: Sound, rate: int) -> Sound:
    """Convert a sound to `rate` samples a second (Smith, Digital Audio Resampling).

    Sample n of the result is sum_k x_k h(n / r - k), where r is the new rate by the
    old, h(t) = b sinc(b t) cos^2(pi b t / (2 Z)) within |t| <= Z / b, Z = 16 and
    b = 0.95 min(1, r). It has ceil(r length) samples; outside of the sound x is 0.
    """
    if rate == sound.rate:
        return sound
    count = resampled_length(sound, rate)
    band = ROLL_OFF * min(1.0, rate / sound.rate)
    reach = math.ceil(ZERO_CROSSINGS / band)
    padded = np.pad(sound.samples.astype(np.float64), (reach, reach + 1))
    chunks = []
    for first in range(0, count, RESAMPLING_CHUNK):
        indices = np.arange(first, min(first + RESAMPLING_CHUNK, count))
        chunks.append(_interpolate(padded, indices * (sound.rate / rate), band, reach))
    return Sound(np.concatenate(chunks).astype(np.float32), rate)


def resampled_length(sound: Sound, rate: int) -> int:
    """Return the number of samples that `resample` gives."""
    return -(-len(sound.samples) * rate // sound.rate)


def _interpolate(
    padded: Float[np.ndarray, " sample"],
    times: Float[np.ndarray, " time"],
    band: float,
    reach: int,
) -> Float[np.ndarray, " time"]:
    """Evaluate the band-limited sound between samples, behind `reach` zeros."""
    first = np.floor(times).astype(np.int64)
    neighbors = first[:, None] + np.arange(-reach + 1, reach + 1)
    distance = band * (times[:, None] - neighbors)
    window = np.cos(np.pi * distance / (2 * ZERO_CROSSINGS)) ** 2
    window = np.where(abs(distance) <= ZERO_CROSSINGS, window, 0.0)
    values = padded[np.minimum(neighbors + reach, len(padded) - 1)]
    return (values * band * np.sinc(distance) * window).sum(1)


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
    window: Positive = 0.025
    """The seconds of a frame's window."""
    hop: Positive = 0.01
    """The seconds from one frame to the next."""
    mels: Annotated[int, Field(ge=2, le=256)] = 40
    """The number of bands."""
    lowest: Annotated[float, Field(ge=0)] = 60.0
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
        if self.hop_samples < 1 or self.window_samples < 2:
            raise ValueError(
                f"audio.hop {self.hop} and audio.window {self.window} have no samples; "
                "raise them"
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

    def count_frames(self, sound: Sound, location: str) -> int:
        """Return the number of frames of a sound of any rate.

        Raises:
            InputError: The sound is longer than `longest`.
        """
        check_length(sound.seconds, self.longest, location)
        return self.frames(resampled_length(sound, self.rate))

    def filters(self) -> Float[Tensor, "frequency mel"]:
        """Return the triangles of all bands, in float64."""
        return _triangles(
            self.rate, self.size, self.mels, self.lowest, self.highest_frequency
        )

    def resample(self, sound: Sound, location: str) -> Sound:
        """Convert a sound to `rate` samples a second.

        Raises:
            InputError: The sound is longer than `longest`.
        """
        check_length(sound.seconds, self.longest, location)
        return resample(sound, self.rate)

    def __call__(
        self, samples: Float[Tensor, "*batch sample"]
    ) -> Float[Tensor, "*batch frame mel"]:
        """Compute the features of samples of `rate` a second, in their dtype."""
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
        features = (power.mT @ self.filters().to(power) + FLOOR).log()
        if not self.standardised:
            return features
        centered = features - features.mean(-2, keepdim=True)
        deviation = centered.square().mean(-2, keepdim=True).sqrt()
        return centered / deviation.clamp(min=LEAST_DEVIATION)


@lru_cache(8)
def _triangles(
    rate: int, size: int, mels: int, lowest: float, highest: float
) -> Tensor:
    first, last = 2595 * np.log10(1 + np.array([lowest, highest]) / 700)
    edges = 700 * (10 ** (np.linspace(first, last, mels + 2) / 2595) - 1)
    frequencies = (np.arange(size // 2 + 1) * rate / size)[:, None]
    rising = (frequencies - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - frequencies) / (edges[2:] - edges[1:-1])
    return torch.from_numpy(np.clip(np.minimum(rising, falling), 0, None))


@dataclass(frozen=True, kw_only=True)
class Masking:
    """SpecAugment's masks of training features (Park 2019, 1904.08779, section 2).

    Masked features are 0, the mean.
    """

    time: Count = 0
    """The largest number of frames of a mask."""
    times: Count = 1
    """The number of masks of frames."""
    frequency: Count = 0
    """The largest number of bands of a mask."""
    frequencies: Count = 1
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
        for _ in range(self.times):
            width = random.randint(0, min(self.time, int(self.share * frames)))
            first = random.randint(0, frames - width)
            masked[first : first + width] = 0.0
        for _ in range(self.frequencies):
            width = random.randint(0, min(self.frequency, mels))
            first = random.randint(0, mels - width)
            masked[:, first : first + width] = 0.0
        return masked
