"""Image files, their preparation for a model, augmentation and previews."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Annotated, Any, Literal

import numpy as np
import torch
from jaxtyping import Float, UInt8
from pydantic import Field
from torch import Tensor

from regard.errors import InputError
from regard.extras import how_to_install

Pixels = UInt8[np.ndarray, "height width channel"]
Image = Path | str | bytes | np.ndarray
"""A path, the content of a file, or uint8 `(height, width)` or with channels behind."""
Resampling = Literal["nearest", "lanczos", "bilinear", "bicubic", "box", "hamming"]
Side = Annotated[int, Field(ge=1)]

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM")
SUFFIXES = frozenset(
    (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
)
MOST_PIXELS = 1 << 26
"""The most pixels of an image; a file of a few bytes can claim any number."""
MODES = {1: "L", 3: "RGB"}
"""Pillow's mode for a number of channels."""
LONGEST_SIDE = 384
"""The most pixels of a side of a photograph that is drawn or sent to a page."""
PREVIEW_SIDE, PREVIEW_QUALITY = 256, 90
COLOR_SAMPLES = 20
"""Images that are decoded to find a color: a gray image may have three channels."""
LEAST_TINT = 8
"""The difference of two channels above which a pixel has a color."""


def pillow() -> Any:
    """Import the library Pillow.

    Raises:
        InputError: It isn't installed.
    """
    try:
        import PIL.Image
        import PIL.ImageOps
    except ImportError as error:
        raise InputError(
            "images are read by Pillow, which is not installed: "
            f"{how_to_install('pillow')}"
        ) from error
    return PIL


def read_image(path: Path | str, channels: int = 3) -> Pixels:
    """Read an image file, gray (1 channel) or red, green and blue (3).

    It is rotated as its EXIF orientation says. Transparent pixels become white, 16 bits
    become 8, and an animation gives its first frame.

    Raises:
        InputError: The file is missing, no image, broken, cut short or too large.
    """
    path = Path(path)
    if path.is_file():
        return _decode(path, str(path), channels)
    if path.is_dir():
        raise InputError(f"{path}: is a directory; expected an image")
    problem = "is no regular file" if path.exists() else "no such file"
    raise InputError(f"{path}: {problem}; expected an image")


def decode_image(
    content: bytes, channels: int = 3, location: str = "the image"
) -> Pixels:
    """Decode the bytes of a file as `read_image` does; messages name `location`."""
    return _decode(BytesIO(content), location, channels)


def count_pixels(content: bytes, location: str = "the image") -> int:
    """Return the pixels that a header claims, without decoding; 0 if it is no image.

    Raises:
        InputError: The header is broken, or Pillow isn't installed.
    """
    library = pillow()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with library.Image.open(BytesIO(content), formats=FORMATS) as image:
                return image.width * image.height
        except library.Image.DecompressionBombError:
            return MOST_PIXELS + 1
        except library.UnidentifiedImageError:
            return 0
        except Exception as error:  # a decoder may raise anything for broken bytes
            raise _broken_image(location, error) from error


def _decode(file: Path | BytesIO, location: str, channels: int) -> np.ndarray:
    library = pillow()
    with warnings.catch_warnings():
        # Pillow warns at a limit of its own; broken files are refused below
        warnings.simplefilter("ignore")
        try:
            with library.Image.open(file, formats=FORMATS) as image:
                _check_size(location, image)
                upright = library.ImageOps.exif_transpose(image)
                opaque = _to_opaque_bytes(library, upright)
                pixels = np.asarray(opaque.convert(MODES[channels]))
        except InputError:
            raise
        except library.Image.DecompressionBombError as error:
            raise InputError(
                f"{location}: has far more than {MOST_PIXELS:,} pixels; make it smaller"
            ) from error
        except library.UnidentifiedImageError as error:
            raise InputError(
                f"{location}: is no image of a supported format "
                f"({', '.join(FORMATS)}); convert it"
            ) from error
        except Exception as error:  # a decoder may raise anything for broken bytes
            raise _broken_image(location, error) from error
    return _with_channel_axis(pixels)


def _broken_image(location: str, error: Exception) -> InputError:
    reason = " ".join(str(error).split()) or type(error).__name__
    return InputError(
        f"{location}: broken, truncated or unusual image ({reason}); save it as PNG"
    )


def _check_size(location: str, image: Any) -> None:
    width, height = image.size
    if width * height > MOST_PIXELS:
        raise InputError(
            f"{location}: {width} x {height} pixels, more than {MOST_PIXELS:,}; make it "
            "smaller"
        )


def _to_opaque_bytes(library: Any, image: Any) -> Any:
    """Reduce an image to 8 bits a channel without transparency."""
    if image.mode == "F":
        raise ValueError("its pixels are floats, whose range is not known")
    if image.mode.startswith("I"):
        pixels = np.asarray(image).astype(np.int64)
        if pixels.min() < 0 or pixels.max() > 0xFFFF:
            raise ValueError("its pixels have 32 bits, whose range is not known")
        return library.Image.fromarray(((pixels + 128) // 257).astype(np.uint8))
    if not image.has_transparency_data:
        return image
    transparent = image.convert("RGBA")
    background = library.Image.new("RGBA", transparent.size, "white")
    return library.Image.alpha_composite(background, transparent).convert("RGB")


def _with_channel_axis(pixels: np.ndarray) -> np.ndarray:
    return pixels[:, :, None] if pixels.ndim == 2 else pixels


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """The way from an image to numbers: resize, crop the middle, normalize."""

    size: Side | None = None
    """The side of the middle that is cropped, in pixels; by default the model's."""
    resize: Side | None = None
    """The length of the shorter side before cropping, in pixels; by default `size`."""
    shape: Literal["kept", "stretched"] = "kept"
    """With `kept` the shorter side is resized, with `stretched` both are."""
    resample: Resampling = "bilinear"
    mean: tuple[float, ...] = (0.5,)
    """Subtracted from pixels scaled to 0 to 1; one number, or one a channel."""
    deviation: tuple[float, ...] = (0.5,)
    """The divisor after that; one number, or one a channel."""

    def __post_init__(self) -> None:
        if self.size is not None and (self.resize or self.size) < self.size:
            raise ValueError(
                f"resize is {self.resize}, less than the {self.size} pixels of size; "
                "raise it"
            )
        if min(self.deviation, default=0.0) <= 0:
            raise ValueError(
                f"deviation is {list(self.deviation)}; expected numbers above 0"
            )

    def check_channels(self, channels: int) -> None:
        """Raise ValueError where mean or deviation have another number of channels."""
        for name, numbers in (("mean", self.mean), ("deviation", self.deviation)):
            if len(numbers) not in (1, channels):
                raise ValueError(
                    f"images.{name} has {len(numbers)} numbers; expected 1, or "
                    f"{channels} as the model has channels"
                )

    def pixels(
        self, image: Image, size: int, channels: int, location: str = "the image"
    ) -> Pixels:
        """Resize and crop an image to `size` x `size`, or to the preparation's size.

        Raises:
            InputError: The file can't be read as an image, or the array, which
                messages call `location`, has another shape.
        """
        pixels = _read_any(image, channels, location)
        size = self.size or size
        resize = max(self.resize or size, size)
        height, width = pixels.shape[:2]
        shorter = min(height, width)
        target = height * resize // shorter, width * resize // shorter
        if target[0] * target[1] > MOST_PIXELS:
            if isinstance(image, Path | str):
                location = str(image)
            raise InputError(
                f"{location}: {width} x {height} pixels are too long and thin; crop the "
                "image"
            )
        if self.shape == "stretched":
            target = resize, resize
        pixels = self._resize(pixels, target)
        y, x = (pixels.shape[0] - size) // 2, (pixels.shape[1] - size) // 2
        return pixels[y : y + size, x : x + size]

    def photograph(
        self, image: Image, size: int, location: str = "the image"
    ) -> Pixels:
        """Return the part of an image that `pixels` shows, in its own resolution.

        It has at most `LONGEST_SIDE` pixels a side.

        Raises:
            InputError: As `pixels`.
        """
        if isinstance(image, np.ndarray):
            pixels = _with_channel_axis(image)
        else:
            pixels = _read_any(image, 3, location)
        size = self.size or size
        share = size / max(self.resize or size, size)
        height, width = pixels.shape[:2]
        if self.shape == "kept":
            tall = wide = max(1, round(share * min(height, width)))
        else:
            tall, wide = max(1, round(share * height)), max(1, round(share * width))
        y, x = (height - tall) // 2, (width - wide) // 2
        part = pixels[y : y + tall, x : x + wide]
        scale = min(1.0, LONGEST_SIDE / max(tall, wide))
        target = max(1, round(scale * tall)), max(1, round(scale * wide))
        return self._resize(part, target)

    def tensor(
        self, pixels: UInt8[np.ndarray, "*batch height width channel"]
    ) -> Float[Tensor, "*batch channel height width"]:
        """Normalize pixels.

        Raises:
            InputError: `mean` or `deviation` have another number of channels.
        """
        try:
            self.check_channels(pixels.shape[-1])
        except ValueError as error:
            raise InputError(str(error)) from error
        scaled = (pixels / 255 - np.array(self.mean)) / np.array(self.deviation)
        channels_first = np.moveaxis(scaled, -1, -3)
        return torch.from_numpy(np.ascontiguousarray(channels_first, dtype=np.float32))

    def _resize(self, pixels: np.ndarray, target: tuple[int, int]) -> np.ndarray:
        if pixels.shape[:2] == target:
            return pixels
        library = pillow()
        method = library.Image.Resampling[self.resample.upper()]
        image = _to_pillow(library, pixels).resize(target[::-1], method)
        return _with_channel_axis(np.asarray(image))


def _to_pillow(library: Any, pixels: Pixels) -> Any:
    gray = pixels.shape[2] == 1
    return library.Image.fromarray(pixels[:, :, 0] if gray else pixels)


def _read_any(image: Image, channels: int, location: str) -> Pixels:
    if isinstance(image, bytes):
        return decode_image(image, channels, location)
    if not isinstance(image, np.ndarray):
        return read_image(image, channels)
    pixels = _with_channel_axis(image)
    accepted = sorted({1, channels} & set(MODES))
    if (
        pixels.dtype != np.uint8
        or pixels.ndim != 3
        or 0 in pixels.shape
        or pixels.shape[2] not in (1, channels)
    ):
        raise InputError(
            f"{location}: is {image.dtype} {image.shape}; expected uint8 (height, width) "
            f"or (height, width, channel) with {' or '.join(map(str, accepted))} channels"
        )
    return (
        pixels if pixels.shape[2] == channels else np.repeat(pixels, channels, axis=2)
    )


def decode_any(image: Image) -> np.ndarray:
    """Return the pixels of an image of any kind; an array stays as it is.

    Raises:
        InputError: The image can't be read.
    """
    if isinstance(image, np.ndarray):
        return image
    return decode_image(image) if isinstance(image, bytes) else read_image(image)


@dataclass(frozen=True)
class Augmentation:
    """Random changes of training images."""

    flip: bool = False
    """Mirror half of the images, left to right."""
    shift: Annotated[int, Field(ge=0)] = 0
    """Move each by up to so many pixels in each direction (He 2016, 1512.03385)."""
    turn: Annotated[float, Field(ge=0, le=180)] = 0.0
    """Rotate each by up to so many degrees either way."""
    stretch: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Scale each side by a factor of 1 - stretch to 1 + stretch."""
    slant: Annotated[float, Field(ge=0)] = 0.0
    """Shift each column by up to so much of its distance from the middle."""
    outside: Annotated[int, Field(ge=0, le=255)] = 0
    """The value of pixels from outside the image, 0 (black) to 255."""

    def __call__(self, pixels: Pixels, seed: int, epoch: int, index: int) -> Pixels:
        """Augment an image, as a function of seed, epoch and index only."""
        random = Random(f"{seed}/{epoch}/{index}")
        if self.flip and random.random() < 0.5:
            pixels = pixels[:, ::-1]
        if self.shift:
            y = random.randint(0, 2 * self.shift)
            x = random.randint(0, 2 * self.shift)
            pixels = self._shift(pixels, y, x)
        if not (self.turn or self.stretch or self.slant):
            return pixels
        degrees = random.uniform(-self.turn, self.turn)
        slant = random.uniform(-self.slant, self.slant)
        width = 1 + random.uniform(-self.stretch, self.stretch)
        height = 1 + random.uniform(-self.stretch, self.stretch)
        pixels = np.ascontiguousarray(pixels)
        return warp(pixels, degrees, (width, height), slant, self.outside)

    def _shift(self, pixels: Pixels, y: int, x: int) -> Pixels:
        height, width, _ = pixels.shape
        border = (self.shift, self.shift)
        padded = np.pad(pixels, (border, border, (0, 0)), constant_values=self.outside)
        return padded[y : y + height, x : x + width]


def warp(
    pixels: Pixels,
    degrees: float,
    scale: tuple[float, float],
    slant: float,
    outside: int,
) -> Pixels:
    """Scale width and height, shear columns downwards, then rotate clockwise.

    `slant` is in pixels for each pixel to the right. Pixels from beyond the edges have
    the value `outside`.
    """
    height, width, channels = pixels.shape
    center = width / 2, height / 2
    inverse = _invert(math.radians(degrees), scale, slant)
    rows = []
    for row, middle in zip(inverse, center, strict=True):
        rows += [*row, middle - row[0] * center[0] - row[1] * center[1]]
    library = pillow()
    image = _to_pillow(library, pixels).transform(
        (width, height),
        library.Image.Transform.AFFINE,
        tuple(rows),
        resample=library.Image.Resampling.BILINEAR,
        fillcolor=outside if channels == 1 else (outside,) * channels,
    )
    return np.asarray(image).reshape(pixels.shape)


def _invert(
    angle: float, scale: tuple[float, float], slant: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Compute diag(scale)^-1 [[1, 0], [-slant, 1]] R(-angle).

    NumPy takes longer over so few numbers than over an image.
    """
    cos, sin = math.cos(angle), math.sin(angle)
    width, height = scale
    first = cos / width, sin / width
    return first, ((-slant * cos - sin) / height, (cos - slant * sin) / height)


def encode_preview(image: Image) -> bytes:
    """Encode an image of at most `PREVIEW_SIDE` pixels a side, for a page.

    Raises:
        InputError: The image can't be read, or Pillow isn't installed.
    """
    pixels = decode_any(image)
    if pixels.ndim == 3 and (pixels == pixels[:, :, :1]).all():
        pixels = pixels[:, :, 0]
    reduced = pillow().Image.fromarray(np.ascontiguousarray(pixels))
    reduced.thumbnail((PREVIEW_SIDE, PREVIEW_SIDE))
    content = BytesIO()
    if pixels.ndim == 2:
        reduced.save(content, format="PNG")
    else:
        reduced.save(content, format="JPEG", quality=PREVIEW_QUALITY)
    return content.getvalue()


@dataclass(frozen=True)
class ImageSurvey:
    """The least and the largest sides of images, and whether any has color."""

    least: tuple[int, int]
    largest: tuple[int, int]
    coloured: bool
    """The key of `data.json` in run folders, which is why it keeps its spelling."""

    @property
    def is_oblong(self) -> bool:
        """Whether the least or the largest sides differ."""
        return self.least[0] != self.least[1] or self.largest[0] != self.largest[1]

    def __str__(self) -> str:
        extremes = self.least, self.largest
        sizes = dict.fromkeys(f"{height} x {width}" for height, width in extremes)
        return f"{' to '.join(sizes)}, {'color' if self.coloured else 'gray'}"


def survey_images(images: Sequence[Image]) -> ImageSurvey:
    """Find the sizes and colors of at least one image, from the headers.

    Raises:
        InputError: A file can't be read.
    """
    heights, widths = zip(*(_read_size(image) for image in images), strict=True)
    step = max(1, len(images) // COLOR_SAMPLES)
    return ImageSurvey(
        (min(heights), min(widths)),
        (max(heights), max(widths)),
        any(_has_color(image) for image in images[::step]),
    )


def _read_size(image: Image) -> tuple[int, int]:
    if isinstance(image, np.ndarray):
        return image.shape[0], image.shape[1]
    file = BytesIO(image) if isinstance(image, bytes) else image
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pillow().Image.open(file, formats=FORMATS) as source:
            return source.height, source.width


def _has_color(image: Image) -> bool:
    pixels = decode_any(image)
    if pixels.ndim == 2 or pixels.shape[2] == 1:
        return False
    channels = pixels[:, :, :3].astype(np.int16)
    return bool((channels.max(2) - channels.min(2)).max() > LEAST_TINT)
