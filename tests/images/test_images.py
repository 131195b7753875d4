"""Image files of every kind, and from an image to the input of a model."""

import re
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from regard.errors import InputError
from regard.extras import how_to_install
from regard.images import Preparation, count_pixels, read_image

RED, WHITE = [255, 0, 0], [255, 255, 255]


def saved(path: Path, image: Image.Image, **options: object) -> Path:
    image.save(path, **options)  # pyright: ignore[reportArgumentType]
    return path


def halves() -> np.ndarray:
    """5 x 7 pixels, red at the left and white at the right."""
    found = np.full((5, 7, 3), 255, dtype=np.uint8)
    found[:, :3] = RED
    return found


def test_one_pixel(tmp_path: Path):
    found = read_image(saved(tmp_path / "a.png", Image.new("RGB", (1, 1), (2, 3, 5))))
    assert found.tolist() == [[[2, 3, 5]]]
    assert read_image(tmp_path / "a.png", 1).shape == (1, 1, 1)


def test_cmyk(tmp_path: Path):
    found = read_image(saved(tmp_path / "a.jpg", Image.new("CMYK", (8, 8), (0, 255, 255, 0)), quality=95))
    assert np.abs(found.astype(int) - RED).max() < 8


def test_palette(tmp_path: Path):
    path = saved(tmp_path / "a.gif", Image.fromarray(halves()).convert("P", palette=Image.Palette.ADAPTIVE))
    assert (read_image(path) == halves()).all()


def test_a_palette_with_something_transparent(tmp_path: Path):
    image = Image.new("P", (2, 1))
    image.putpalette([0, 0, 0, *RED])
    image.putpixel((1, 0), 1)
    assert read_image(saved(tmp_path / "a.png", image, transparency=0)).tolist() == [[WHITE, RED]]


@pytest.mark.parametrize(("mode", "colour"), [("RGBA", (255, 0, 0, 0)), ("LA", (0, 0))])
def test_what_is_transparent_stands_on_white(mode: str, colour: tuple[int, ...], tmp_path: Path):
    assert read_image(saved(tmp_path / "a.png", Image.new(mode, (1, 1), colour))).tolist() == [[WHITE]]


@pytest.mark.parametrize("orientation", [1, 2, 3, 6, 7])
def test_upright_as_the_camera_was_held(orientation: int, tmp_path: Path):
    turns = {
        1: halves(), 2: halves()[:, ::-1], 3: halves()[::-1, ::-1], 4: halves()[::-1],
        5: halves().transpose(1, 0, 2), 6: np.rot90(halves(), 1), 7: np.rot90(halves(), 2).transpose(1, 0, 2),
        8: np.rot90(halves(), -1),
    }  # fmt: skip
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = saved(tmp_path / "a.png", Image.fromarray(np.ascontiguousarray(turns[orientation])), exif=exif)
    assert (read_image(path) == halves()).all()


@pytest.mark.parametrize("suffix", ["png", "tif", "pgm"])
def test_sixteen_bits_of_grey(suffix: str, tmp_path: Path):
    deep = np.array([[0, 257 * 100, 0xFFFF]], dtype=np.uint16)
    path = saved(tmp_path / f"a.{suffix}", Image.fromarray(deep))
    assert read_image(path, 1)[:, :, 0].tolist() == [[0, 100, 255]]
    assert read_image(path)[0, 1].tolist() == [100, 100, 100]


@pytest.mark.parametrize(
    ("suffix", "share"), [("jpg", 0.3), ("png", 0.95), ("gif", 0.6), ("bmp", 0.95), ("webp", 0.6), ("tif", 0.3)]
)
def test_truncated(suffix: str, share: float, tmp_path: Path):
    noise = np.random.default_rng(1).integers(0, 256, (61, 67, 3), dtype=np.uint8)
    whole = saved(tmp_path / f"whole.{suffix}", Image.fromarray(noise)).read_bytes()
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(InputError, match=r"a\.\w+: (broken|is no image)") as caught:
        read_image(path)
    assert "\n" not in str(caught.value)


def bomb(path: Path, width: int, height: int) -> Path:
    """A PNG of a few bytes that says how large it is and holds next to nothing."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(b"\0" * 99)), chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))
    return path


@pytest.mark.parametrize("side", [10_000, 50_000])
def test_a_decompression_bomb(side: int, tmp_path: Path):
    path = bomb(tmp_path / "a.png", side, side)
    with pytest.raises(InputError, match=r"a\.png: has more than 67,108,864 pixels"):
        read_image(path)
    assert count_pixels(path.read_bytes()) == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is no image of a supported format"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "is no image of a supported format"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "is no image of a supported format"),
    ],
)
def test_another_kind_of_file(content: bytes, message: str, tmp_path: Path):
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_image(tmp_path / "a.png")


def test_numbers_without_a_known_range(tmp_path: Path):
    path = saved(tmp_path / "a.tif", Image.fromarray(np.array([[0.5]], dtype=np.float32)))
    with pytest.raises(InputError, match="its pixels have a range that is not known"):
        read_image(path)
    path = saved(tmp_path / "b.tif", Image.fromarray(np.array([[1 << 20]], dtype=np.int32)))
    with pytest.raises(InputError, match="its pixels have a range that is not known"):
        read_image(path)


def test_no_file(tmp_path: Path):
    with pytest.raises(InputError, match=r"none\.png: no such file; expected an image"):
        read_image(tmp_path / "none.png")
    with pytest.raises(InputError, match="is a directory; expected an image"):
        read_image(tmp_path)


def test_without_pillow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    path = saved(tmp_path / "a.png", Image.new("RGB", (1, 1)))
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(InputError, match=re.escape(f"Pillow, which is not installed: {how_to_install('pillow')}")):
        read_image(path)


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
