"""From an image to the input of a model: the same as the processors of published models."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from regard.errors import InputError
from regard.images import Preparation


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, shape, dtype=np.uint8)


def test_the_middle_of_an_image():
    image = noise(11, 13, 3)
    found = Preparation().pixels(image, 11, 3)
    assert (found == image[:, 1:12]).all()
    assert (Preparation(size=5, resize=11).pixels(image, 7, 3) == image[3:8, 4:9]).all()


def test_numbers_around_zero():
    image = noise(5, 5, 3)
    found = Preparation(mean=(0.1, 0.2, 0.3), deviation=(0.5, 0.7, 1.1)).tensor(image)
    assert found.dtype == torch.float32
    for channel, (mean, deviation) in enumerate([(0.1, 0.5), (0.2, 0.7), (0.3, 1.1)]):
        expected = (torch.from_numpy(image[:, :, channel]) / 255 - mean) / deviation
        torch.testing.assert_close(found[channel], expected, rtol=1e-6, atol=1e-6)


def test_grey_becomes_colour():
    image = noise(7, 7)
    found = Preparation().pixels(image, 7, 3)
    assert all((found[:, :, channel] == image).all() for channel in range(3))


@pytest.mark.parametrize(
    ("array", "channels"),
    [(np.zeros((5, 5, 3)), 3), (noise(5, 5, 4), 3), (noise(5, 5, 3), 1), (noise(5), 1), (noise(0, 5, 1), 1)],
)
def test_another_kind_of_array(array: np.ndarray, channels: int):
    with pytest.raises(InputError, match=r"image 7: is .* expected uint8"):
        Preparation().pixels(array, 5, channels, "image 7")


def test_too_long_and_thin(tmp_path: Path):
    Image.new("L", (1, 60_000)).save(tmp_path / "a.png")
    with pytest.raises(InputError, match=r"a\.png: 1 x 60000 pixels are too long and thin"):
        Preparation().pixels(tmp_path / "a.png", 224, 3)


def test_what_does_not_fit():
    with pytest.raises(ValueError, match="resize is 7, less than the 9 pixels of size"):
        Preparation(size=9, resize=7)
    with pytest.raises(ValueError, match=r"images\.mean has 2 numbers; expected 1, or 3"):
        Preparation(mean=(0.1, 0.2)).check_channels(3)


def test_a_photograph_shows_what_the_model_reads_in_more_detail():
    image = noise(800, 1000, 3)
    found = Preparation(size=20, resize=40).photograph(image, 20)
    assert found.shape == (380, 380, 3)
    np.testing.assert_array_equal(found, Preparation(size=380, resize=760).pixels(image, 380, 3))
    small = noise(28, 28)
    np.testing.assert_array_equal(Preparation().photograph(small, 28)[:, :, 1], small)


@pytest.mark.parametrize(
    ("resample", "shape", "sides"),
    [
        ("nearest", "kept", (31, 41)),
        ("bilinear", "stretched", (23, 17)),
        ("bicubic", "kept", (7, 5)),
        ("lanczos", "stretched", (13, 13)),
        ("bilinear", "kept", (23, 17)),
    ],
)
def test_the_same_as_transformers(resample: Any, shape: Any, sides: tuple[int, int]):
    transformers = pytest.importorskip("transformers")
    image = noise(*sides, 3)
    mean, deviation = (0.4, 0.5, 0.6), (0.2, 0.3, 0.1)
    size = {"shortest_edge": 13} if shape == "kept" else {"height": 13, "width": 13}
    processor = transformers.CLIPImageProcessorPil(
        size=size, crop_size={"height": 11, "width": 11}, do_center_crop=True, do_convert_rgb=False,
        resample=["nearest", "lanczos", "bilinear", "bicubic"].index(resample), image_mean=mean, image_std=deviation,
    )  # fmt: skip
    expected = processor(Image.fromarray(image), return_tensors="pt")["pixel_values"][0]
    prepared = Preparation(size=11, resize=13, shape=shape, resample=resample, mean=mean, deviation=deviation)
    found = prepared.tensor(prepared.pixels(image, 5, 3))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
