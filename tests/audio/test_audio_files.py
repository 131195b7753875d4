"""Audio files: every width of WAV, channels and rates, and what is refused in one line."""

import io
import struct
import sys
import wave
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from regard.audio import Sound, read_audio, resample
from regard.errors import InputError


def wav(samples: np.ndarray, rate: int = 8000, width: int = 2, channels: int = 1) -> bytes:
    """A WAV file of samples -1 to 1, of several channels in turn."""
    whole = np.round(samples * (2 ** (8 * width - 1) - 1)).astype(np.int64)
    if width == 1:
        raw = (whole + 128).astype(np.uint8).tobytes()
    else:
        raw = b"".join(int(each).to_bytes(width, "little", signed=True) for each in whole)
    file = io.BytesIO()
    with wave.open(file, "wb") as opened:
        opened.setnchannels(channels)
        opened.setsampwidth(width)
        opened.setframerate(rate)
        opened.writeframes(raw)
    return file.getvalue()


SINE = 0.5 * np.sin(2 * np.pi * 440 * np.arange(800) / 8000)


@pytest.mark.parametrize(("width", "error"), [(1, 2**-7), (2, 2**-14), (3, 1e-6), (4, 1e-6)])
def test_every_width_gives_the_same_samples(width: int, error: float):
    found = read_audio(wav(SINE, width=width))
    assert (found.rate, found.samples.dtype) == (8000, np.float32)
    np.testing.assert_allclose(found.samples, SINE, atol=error)


def test_stereo_is_the_mean_of_both_channels():
    both = np.stack([SINE, np.zeros_like(SINE)], 1).ravel()
    np.testing.assert_allclose(read_audio(wav(both, channels=2)).samples, SINE / 2, atol=1e-4)


def test_44_1_kilohertz_in_24_bits_and_stereo_is_resampled_to_the_rate_of_the_features():
    """440 hertz and 6 kilohertz at 44.1 kHz: at 8 kHz only the first is left, as loud as it was."""
    time = np.arange(44100) / 44100
    tones = 0.4 * np.sin(2 * np.pi * 440 * time) + 0.4 * np.sin(2 * np.pi * 6000 * time)
    found = read_audio(wav(np.repeat(tones, 2), 44100, 3, 2))
    heard = resample(found, 8000)
    assert (heard.rate, len(heard.samples)) == (8000, 8000)
    expected = 0.4 * np.sin(2 * np.pi * 440 * np.arange(8000) / 8000)
    np.testing.assert_allclose(heard.samples[200:-200], expected[200:-200], atol=1e-3)


REFUSED: dict[str, tuple[bytes, str]] = {
    "empty file": (b"", "is empty, 0 bytes"),
    "no samples": (wav(np.zeros(0)), "has no samples"),
    "truncated": (wav(SINE)[:-100], "cut short.*800 samples.*750"),
    "truncated header": (wav(SINE)[:30], "broken, truncated or unusual audio"),
    "rate of 7": (wav(SINE, 7), "7 samples a second"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_audio(case: str):
    content, message = REFUSED[case]
    with pytest.raises(InputError, match=message) as error:
        read_audio(content, location="x.wav")
    assert str(error.value).startswith("x.wav: ")
    assert "\n" not in str(error.value)


def test_an_hour_in_one_file_is_refused_by_its_header(tmp_path: Path):
    """The header promises an hour of 44.1 kHz stereo; none of it is read."""
    size = 3600 * 44100 * 4
    form = struct.pack("<IHHIIHH", 16, 1, 2, 44100, 176400, 4, 16)
    head = b"RIFF" + struct.pack("<I", 36 + size) + b"WAVEfmt " + form
    path = tmp_path / "hour.wav"
    path.write_bytes(head + b"data" + struct.pack("<I", size))
    with pytest.raises(InputError, match=r"hour.wav: 3,600 seconds"):
        read_audio(path)


def test_a_missing_file_and_a_folder(tmp_path: Path):
    with pytest.raises(InputError, match=r"no such file; expected audio"):
        read_audio(tmp_path / "a.wav")
    with pytest.raises(InputError, match=r"is a directory; expected audio"):
        read_audio(tmp_path)


def test_other_formats_without_soundfile(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(InputError, match=r"is no WAV file with 16 bits; other audio is read by soundfile.*pip install"):
        read_audio(b"fLaC" + bytes(40))


class Opened(SimpleNamespace):
    """What soundfile opens."""

    def __enter__(self) -> "Opened":
        return self

    def __exit__(self, *exception: object) -> None: ...


@pytest.mark.parametrize(
    ("samples", "message"), [([[0.5, 0.1]], ""), ([], "no samples"), ([[np.nan, 0]], "not finite")]
)
def test_other_formats_by_soundfile(samples: list[Any], message: str, monkeypatch: pytest.MonkeyPatch):
    values = np.array(samples, np.float32).reshape(-1, 2)
    opened = Opened(channels=2, samplerate=16000, frames=len(values), read=lambda **settings: values)
    monkeypatch.setitem(sys.modules, "soundfile", SimpleNamespace(SoundFile=lambda file: opened))
    if message:
        with pytest.raises(InputError, match=message):
            read_audio(b"fLaC" + bytes(40))
    else:
        found = read_audio(b"fLaC" + bytes(40))
        assert (found.rate, found.samples.tolist()) == (16000, pytest.approx([0.3]))


def test_a_sound_knows_its_seconds():
    assert Sound(np.zeros(12_000, np.float32), 8000).seconds == 1.5
