"""Audio files, and log-mel features, resampling and masks against NumPy in float64."""

import io
import math
import struct
import sys
import wave
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from regard.audio import FeatureMasking, LogMel, Sound, read_audio, resample
from regard.errors import InputError
from regard.tasks.speech.data import Utterance


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


def by_numpy(x: np.ndarray, rate: int, window: int, hop: int, mels: int, lowest: float) -> np.ndarray:
    """The docstring's formula, one frame and one frequency at a time."""
    size = 1 << (window - 1).bit_length()
    edges = np.linspace(2595 * math.log10(1 + lowest / 700), 2595 * math.log10(1 + rate / 2 / 700), mels + 2)
    edges = 700 * (10 ** (edges / 2595) - 1)
    hann = [(1 - math.cos(2 * math.pi * n / window)) / 2 for n in range(window)]
    rows = []
    for frame in range(1 + len(x) // hop):
        first = frame * hop - size // 2 + (size - window) // 2
        part = [hann[n] * (x[first + n] if 0 <= first + n < len(x) else 0.0) for n in range(window)]
        power = [
            abs(sum(value * np.exp(-2j * np.pi * k * n / size) for n, value in enumerate(part))) ** 2
            for k in range(size // 2 + 1)
        ]
        row = []
        for band in range(mels):
            low, middle, high = edges[band : band + 3]
            total = 0.0
            for k, each in enumerate(power):
                at = k * rate / size
                total += each * max(0.0, min((at - low) / (middle - low), (high - at) / (high - middle)))
            row.append(math.log(total + 1e-7))
        rows.append(row)
    return np.array(rows)


@pytest.mark.parametrize(("window", "samples"), [(0.025, 173), (0.017, 59), (0.025, 1)])
def test_features_are_those_of_the_docstring(window: float, samples: int):
    x = np.random.default_rng(3).standard_normal(samples) * 0.1
    audio = LogMel(rate=2000, window=window, hop=0.011, mels=5, standardised=False)
    found = audio(torch.from_numpy(x)).numpy()
    assert len(found) == audio.frames(samples)
    np.testing.assert_allclose(found, by_numpy(x, 2000, round(window * 2000), 22, 5, 60.0), rtol=1e-9)


def test_standardised_bands_have_mean_0_and_deviation_1_and_silence_is_zeros():
    audio = LogMel(rate=8000, mels=20)
    found = audio(torch.randn(8000).double())
    torch.testing.assert_close(found.mean(0), torch.zeros(20).double())
    torch.testing.assert_close(found.square().mean(0), torch.ones(20).double())
    assert not audio(torch.zeros(800)).any()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lowest": 5000.0, "rate": 8000}, "audio.lowest is 5000 and audio.highest 4000"),
        ({"highest": 9000.0, "rate": 8000}, "lowest < highest <= rate / 2, 4000"),
        ({"mels": 200, "rate": 8000}, "a band has no frequency"),
    ],
)
def test_settings_that_do_not_fit(settings: dict[str, float], message: str):
    with pytest.raises(ValueError, match=message):
        LogMel(**settings)  # pyright: ignore[reportArgumentType]


def test_a_sound_longer_than_the_limit_is_refused():
    with pytest.raises(InputError, match=r"sound 1: 5 seconds.* 4;"):
        Utterance(Sound(np.zeros(40_000, np.float32), 8000), "", "sound 1").frames(LogMel(longest=4.0))


@pytest.mark.parametrize(("old", "new"), [(8000, 11025), (16000, 8000), (44101, 8000), (8000, 8000)])
def test_resampling_keeps_a_tone_of_the_common_band(old: int, new: int):
    tone = np.sin(2 * np.pi * 700 * np.arange(old // 4) / old).astype(np.float32)
    found = resample(Sound(tone, old), new)
    assert len(found.samples) == -(-(old // 4) * new // old)
    expected = np.sin(2 * np.pi * 700 * np.arange(len(found.samples)) / new)
    np.testing.assert_allclose(found.samples[100:-100], expected[100:-100], atol=2e-3)


def test_masks_are_of_seed_epoch_and_index_and_within_their_widths():
    masking, features = FeatureMasking(time=4, times=2, frequency=3, share=0.5), torch.ones(11, 7)
    found = masking(features, 1, 2, 3)
    assert torch.equal(found, masking(features, 1, 2, 3))
    assert not all(torch.equal(found, masking(features, 1, epoch, 3)) for epoch in range(3, 9))
    for index in range(40):
        masked = masking(features, 1, 1, index) == 0
        assert masked.all(1).sum() <= 8
        assert masked.all(0).sum() <= 3
    assert features.all()
    short = [FeatureMasking(time=50)(torch.ones(10, 3), 1, 1, index) for index in range(40)]
    assert max(int((each == 0).all(1).sum()) for each in short) == 2  # a fifth of the frames
    assert FeatureMasking()(features, 1, 1, 1) is features
