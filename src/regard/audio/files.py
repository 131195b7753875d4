"""Audio files, read and written: WAV by Python's standard library, other formats by soundfile."""

import wave
from importlib import import_module
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32

from regard.audio.sound import Sound
from regard.errors import InputError
from regard.extras import how_to_install

SUFFIXES = frozenset((".wav", ".flac", ".ogg", ".mp3", ".aiff", ".aif"))
LONGEST = 60.0
"""The most seconds of a sound by default."""
LEAST_RATE, MOST_RATE = 1_000, 384_000
"""Samples a second that a header may claim."""


def read_audio(path: Path | str, longest: float = LONGEST) -> Sound:
    """The sound in a file, its channels averaged.

    WAV files have whole numbers of 8 (unsigned), 16, 24 or 32 bits, which are divided by 2^(bits - 1). Other formats,
    WAV with floating-point numbers among them, are read by soundfile.

    Raises:
        InputError: the file is missing, empty, no audio, cut short, longer than `longest` seconds, or of a format that
            needs soundfile, which is not installed.
    """
    path = Path(path)
    if not path.is_file():
        what = (
            "is a directory"
            if path.is_dir()
            else "is no regular file"
            if path.exists()
            else "no such file"
        )
        raise InputError(f"{path}: {what}; expected audio")
    with path.open("rb") as file:
        return _decoded(file, str(path), longest)


def decode_audio(
    content: bytes, longest: float = LONGEST, place: str = "the audio"
) -> Sound:
    """`read_audio` for the bytes of a file; messages call it `place`. Raises InputError."""
    return _decoded(BytesIO(content), place, longest)


def encode_audio(sound: Sound) -> bytes:
    """A WAV file of 16 bits a sample, which `decode_audio` reads."""
    content = BytesIO()
    with wave.open(content, "wb") as file:
        file.setparams((1, 2, sound.rate, len(sound.samples), "NONE", ""))
        file.writeframes(
            (sound.samples.clip(-1, 1 - 2**-15) * 32768).round().astype("<i2").tobytes()
        )
    return content.getvalue()


def check_length(seconds: float, longest: float, place: str) -> None:
    """Raises InputError for more than `longest` seconds."""
    if seconds > longest:
        raise InputError(
            f"{place}: {seconds:,.0f} seconds of sound, more than the {longest:g} that its model takes "
            "(audio.longest of a run file); cut it into parts"
        )


def _decoded(file: BufferedReader | BytesIO, place: str, longest: float) -> Sound:
    head = file.read(12)
    file.seek(0)
    if not head:
        raise InputError(f"{place}: is empty, 0 bytes; expected audio")
    if head[:4] != b"RIFF" or head[8:] != b"WAVE":
        return _by_soundfile(file, place, longest, "is no WAV file")
    try:
        with wave.open(file) as opened:
            return _of_wave(opened, place, longest)
    except wave.Error as error:
        if str(error).startswith("unknown format"):
            file.seek(0)
            return _by_soundfile(
                file, place, longest, "is a WAV file without whole numbers"
            )
        raise _broken(place, error) from error
    except (
        EOFError,
        RuntimeError,
    ) as error:  # one of a chunk that ends behind the file
        raise _broken(place, error) from error


def _of_wave(opened: wave.Wave_read, place: str, longest: float) -> Sound:
    channels, width, rate, promised = opened.getparams()[:4]
    _check_header(place, channels, rate)
    if not 1 <= width <= 4:
        raise InputError(
            f"{place}: {8 * width} bits a sample; expected 8, 16, 24 or 32: save it anew"
        )
    check_length(promised / rate, longest, place)
    raw = opened.readframes(promised)
    found, rest = divmod(len(raw), channels * width)
    if found != promised or rest:
        raise InputError(
            f"{place}: cut short, its header promises {promised:,} samples and {found:,} are there; save it anew"
        )
    if not promised:
        raise InputError(f"{place}: has no samples, 0 seconds of sound; expected audio")
    return Sound(
        whole_numbers(raw, width).reshape(-1, channels).mean(1, dtype=np.float32), rate
    )


def whole_numbers(raw: bytes, width: int) -> Float32[np.ndarray, " number"]:
    """The numbers of `width` bytes each as a WAV file has them, least byte first, divided by 2^(8 width - 1)."""
    if width == 1:
        return (np.frombuffer(raw, np.uint8).astype(np.float32) - 128) / 128
    if width == 3:
        wide = np.zeros((len(raw) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(raw, np.uint8).reshape(-1, 3)
        return (wide.view("<i4")[:, 0] / float(1 << 31)).astype(np.float32)
    return (np.frombuffer(raw, f"<i{width}") / float(1 << (8 * width - 1))).astype(
        np.float32
    )


def _check_header(place: str, channels: int, rate: int) -> None:
    if channels < 1 or not LEAST_RATE <= rate <= MOST_RATE:
        raise InputError(
            f"{place}: {channels} channels, {rate:,} samples a second; expected at least 1, and {LEAST_RATE:,} to "
            f"{MOST_RATE:,}: save it anew"
        )


def _by_soundfile(
    file: BufferedReader | BytesIO, place: str, longest: float, what: str
) -> Sound:
    try:
        library: Any = import_module("soundfile")
    except ImportError as error:
        raise InputError(
            f"{place}: {what}; other audio is read by soundfile, which is not installed: {how_to_install('soundfile')}"
        ) from error
    try:
        with library.SoundFile(file) as opened:
            _check_header(place, opened.channels, opened.samplerate)
            check_length(opened.frames / opened.samplerate, longest, place)
            found = opened.read(dtype="float32", always_2d=True)
            rate = opened.samplerate
    except InputError:
        raise
    except Exception as error:  # a decoder that meets broken bytes may raise anything
        raise _broken(place, error) from error
    if not len(found):
        raise InputError(f"{place}: has no samples, 0 seconds of sound; expected audio")
    if not np.isfinite(found).all():
        raise InputError(f"{place}: has samples that are not finite; save it anew")
    return Sound(found.mean(1, dtype=np.float32), rate)


def _broken(place: str, error: Exception) -> InputError:
    what = " ".join(str(error).split()) or "it ends within a part of it"
    return InputError(
        f"{place}: broken, truncated or unusual audio ({what}); save it anew as WAV"
    )
