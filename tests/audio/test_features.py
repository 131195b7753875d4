"""Log-mel features, resampling and masks against NumPy in float64 and by hand."""

import math

import numpy as np
import pytest
import torch

from regard.audio import LogMel, Masking, Sound, resample
from regard.errors import InputError
from regard.tasks.speech.data import Utterance


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


def test_the_level_of_a_loud_sound_changes_little():
    audio, sound = LogMel(rate=8000, mels=20), torch.randn(4000).double()
    torch.testing.assert_close(audio(sound), audio(0.25 * sound), atol=1e-4, rtol=1e-4)


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
    masking, features = Masking(time=4, times=2, frequency=3, share=0.5), torch.ones(11, 7)
    found = masking(features, 1, 2, 3)
    assert torch.equal(found, masking(features, 1, 2, 3))
    assert not all(torch.equal(found, masking(features, 1, epoch, 3)) for epoch in range(3, 9))
    for index in range(40):
        masked = masking(features, 1, 1, index) == 0
        assert masked.all(1).sum() <= 8
        assert masked.all(0).sum() <= 3
    assert features.all()
    short = [Masking(time=50)(torch.ones(10, 3), 1, 1, index) for index in range(40)]
    assert max(int((each == 0).all(1).sum()) for each in short) == 2  # a fifth of the frames
    assert Masking()(features, 1, 1, 1) is features
