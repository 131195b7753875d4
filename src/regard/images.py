"""Image files, their preparation for a model, augmentation and previews."""

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Annotated, Any, Literal

import numpy as np
import torch
from jaxtyping import Float, UInt8
from pydantic import Field, NonNegativeFloat, NonNegativeInt
from torch import Tensor

from regard.errors import InputError
from regard.extras import check_file, how_to_install

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
SURVEYED = 20
"""Images of a set that are decoded to find sizes and colors."""
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


@contextmanager
def open_image(file: Path | BytesIO, location: str) -> Iterator[Any]:
    """Open an image file by Pillow.

    Raises:
        InputError: It is no image, broken, cut short or too large.
    """
    library = pillow()
    with warnings.catch_warnings():
        # Pillow warns at a limit of its own; broken files are refused below
        warnings.simplefilter("ignore")
        try:
            with library.Image.open(file, formats=FORMATS) as image:
                if image.width * image.height > MOST_PIXELS:
                    raise library.Image.DecompressionBombError
                yield image
        except Exception as error:  # a decoder may raise anything for broken bytes
            message = " ".join(str(error).split())
            reason = message or type(error).__name__
            problem = f"broken, truncated or unusual image ({reason}); save it as PNG"
            if isinstance(error, library.Image.DecompressionBombError):
                problem = f"has more than {MOST_PIXELS:,} pixels; make it smaller"
            elif isinstance(error, library.UnidentifiedImageError):
                listed = ", ".join(FORMATS)
                problem = f"is no image of a supported format ({listed}); convert it"
            raise InputError(f"{location}: {problem}") from error


def count_pixels(content: bytes) -> int:
    """Return the pixels that a header claims, without decoding; 0 if it is no image."""
    try:
        with open_image(BytesIO(content), "the image") as image:
            return image.width * image.height
    except InputError:  # whoever reads the content says what is wrong with it
        return 0


def read_image(
    image: Image | Any, channels: int = 3, location: str = "the image"
) -> Pixels:
    """Read an image, gray (1 channel) or red, green and blue (3).

    A file is rotated as its EXIF orientation says. Transparent pixels become white, 16
    bits become 8, and an animation gives its first frame.

    Args:
        image: The path of a file, its content, an array or an image of Pillow.
        channels: The number of channels of the result.
        location: What to call content or array in an error.

    Raises:
        InputError: A file is missing, no image, broken, cut short or too large; an array
            is of another type or shape.
    """
    if isinstance(image, np.ndarray):
        pixels = np.atleast_3d(image) if image.ndim == 2 else image
        fits = image.dtype == np.uint8 and pixels.ndim == 3 and image.size
        if not fits or pixels.shape[2] not in (1, channels):
            raise InputError(
                f"{location}: is {image.dtype} {image.shape}; expected uint8 (height, "
                f"width) or (height, width, channel) with 1 or {channels} channels"
            )
        return np.repeat(pixels, channels // pixels.shape[2], axis=2)
    if isinstance(image, bytes):
        source = open_image(BytesIO(image), location)
    elif isinstance(image, str | Path):
        file = check_file(image, "an image")
        location = str(file)
        source = open_image(file, location)
    else:
        source = nullcontext(image)
    with source as opened:
        upright = pillow().ImageOps.exif_transpose(opened)
        opaque = _to_opaque_bytes(upright)
        converted = opaque.convert(MODES[channels])
        pixels = np.asarray(converted)
    height, width = pixels.shape[:2]
    return pixels.reshape(height, width, channels)


def _to_opaque_bytes(image: Any) -> Any:
    """Reduce an image to 8 bits a channel without transparency."""
    library = pillow()
    if image.mode[0] in "FI":
        pixels = np.asarray(image)
        if image.mode == "F" or pixels.min() < 0 or pixels.max() > 0xFFFF:
            raise ValueError("its pixels have a range that is not known")
        reduced = (pixels.astype(np.int64) + 128) // 257
        return library.Image.fromarray(reduced.astype(np.uint8))
    if not image.has_transparency_data:
        return image
    transparent = image.convert("RGBA")
    background = library.Image.new("RGBA", transparent.size, "white")
    composite = library.Image.alpha_composite(background, transparent)
    return composite.convert("RGB")


def _to_pillow(pixels: Pixels) -> Any:
    if pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    contiguous = np.ascontiguousarray(pixels)
    return pillow().Image.fromarray(contiguous)


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
        size, resize = self.size, self.resize
        if size and resize and resize < size:
            raise ValueError(
                f"resize is {resize}, less than the {size} pixels of size; raise it"
            )
        if min(self.deviation, default=0.0) <= 0:
            raise ValueError(
                f"deviation is {list(self.deviation)}; expected numbers above 0"
            )

    def rescale(self, size: int, former: int) -> "Preparation":
        """Return the preparation of the same part of an image in `size` pixels a side.

        `former` is the number of pixels so far.
        """
        resize = self.resize and round(self.resize * size / former)
        return replace(self, size=size, resize=resize)

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
            InputError: The image can't be read, as `read_image`, or it is too long and
                thin.
        """
        pixels = read_image(image, channels, location)
        size = self.size or size
        resize = max(self.resize or size, size)
        sides = pixels.shape[:2]
        shorter = min(sides)
        height, width = (side * resize // shorter for side in sides)
        if height * width > MOST_PIXELS:
            if isinstance(image, Path | str):
                location = str(image)
            raise InputError(
                f"{location}: {sides[1]} x {sides[0]} pixels are too long and thin; crop "
                "the image"
            )
        if self.shape == "stretched":
            height = width = resize
        if (height, width) != sides:
            method = pillow().Image.Resampling[self.resample.upper()]
            original = _to_pillow(pixels)
            resized = np.asarray(original.resize((width, height), method))
            pixels = resized.reshape(height, width, channels)
        y = (height - size) // 2
        x = (width - size) // 2
        return pixels[y : y + size, x : x + size]

    def photograph(self, image: Image, size: int) -> Pixels:
        """Return what `pixels` shows in color, larger where the image has more detail.

        It has at most `LONGEST_SIDE` pixels a side, or those of the model.

        Raises:
            InputError: As `pixels`.
        """
        pixels = read_image(image)
        size = self.size or size
        resize = max(self.resize or size, size)
        shorter = min(pixels.shape[:2])
        detail = -(-shorter // resize)
        largest = LONGEST_SIDE // size
        scale = max(1, min(largest, detail))
        larger = replace(self, size=scale * size, resize=scale * resize)
        return larger.pixels(pixels, size, 3)

    def tensor(
        self, pixels: UInt8[np.ndarray, "*batch height width channel"]
    ) -> Float[Tensor, "*batch channel height width"]:
        """Normalize pixels."""
        mean = np.array(self.mean)
        deviation = np.array(self.deviation)
        normalized = (pixels / 255 - mean) / deviation
        channels_first = np.moveaxis(normalized, -1, -3)
        contiguous = np.ascontiguousarray(channels_first, np.float32)
        return torch.from_numpy(contiguous)


@dataclass(frozen=True)
class Augmentation:
    """Random changes of training images."""

    flip: bool = False
    """Mirror half of the images, left to right."""
    shift: NonNegativeInt = 0
    """Move each by up to so many pixels in each direction (He 2016, 1512.03385)."""
    turn: Annotated[float, Field(ge=0, le=180)] = 0.0
    """Rotate each by up to so many degrees either way."""
    stretch: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Scale each side by a factor of 1 - stretch to 1 + stretch."""
    slant: NonNegativeFloat = 0.0
    """Shift each column by up to so much of its distance from the middle."""
    outside: Annotated[int, Field(ge=0, le=255)] = 0
    """The value of pixels from outside the image, 0 (black) to 255."""

    def __call__(self, pixels: Pixels, seed: int, epoch: int, index: int) -> Pixels:
        """Augment an image, as a function of seed, epoch and index only."""
        random = Random(f"{seed}/{epoch}/{index}")
        if self.flip and random.random() < 0.5:
            pixels = pixels[:, ::-1]
        shift = self.shift
        if shift:
            height, width = pixels.shape[:2]
            y = random.randint(0, 2 * shift)
            x = random.randint(0, 2 * shift)
            padding = (shift, shift), (shift, shift), (0, 0)
            padded = np.pad(pixels, padding, constant_values=self.outside)
            pixels = padded[y : y + height, x : x + width]
        turn, slant, stretch = self.turn, self.slant, self.stretch
        if not (turn or slant or stretch):
            return pixels
        degrees = random.uniform(-turn, turn)
        slant = random.uniform(-slant, slant)
        width_scale = 1 + random.uniform(-stretch, stretch)
        height_scale = 1 + random.uniform(-stretch, stretch)
        factors = width_scale, height_scale
        return warp(pixels, degrees, factors, slant, self.outside)


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
    angle = math.radians(degrees)
    cos = math.cos(angle)
    sin = math.sin(angle)
    # The rows of diag(scale)^-1 [[1, 0], [-slant, 1]] R(-degrees): where each pixel of
    # the result comes from, relative to the middle.
    x_middle = width / 2
    y_middle = height / 2
    x_row = cos, sin, scale[0], x_middle
    y_row = -slant * cos - sin, cos - slant * sin, scale[1], y_middle
    rows = []
    for x, y, factor, middle in (x_row, y_row):
        x /= factor
        y /= factor
        rows += [x, y, middle - x * x_middle - y * y_middle]
    library = pillow().Image
    image = _to_pillow(pixels).transform(
        (width, height),
        library.Transform.AFFINE,
        rows,
        resample=library.Resampling.BILINEAR,
        fillcolor=outside if channels == 1 else (outside,) * channels,
    )
    return np.asarray(image).reshape(pixels.shape)


def encode_preview(image: Image) -> bytes:
    """Encode an image of at most `PREVIEW_SIDE` pixels a side, for a page.

    Raises:
        InputError: The image can't be read, or Pillow isn't installed.
    """
    pixels = read_image(image)
    kind = "JPEG"
    gray = pixels[:, :, :1]
    if (pixels == gray).all():
        pixels = gray
        kind = "PNG"
    reduced = _to_pillow(pixels)
    reduced.thumbnail((PREVIEW_SIDE, PREVIEW_SIDE))
    content = BytesIO()
    reduced.save(content, kind, quality=PREVIEW_QUALITY)
    return content.getvalue()


@dataclass(frozen=True)
class ImageSurvey:
    """The least and the largest sides of some images, and whether any has color."""

    least: tuple[int, int]
    largest: tuple[int, int]
    coloured: bool
    """The key of `data.json` in run folders, which is why it keeps its spelling."""

    @property
    def is_oblong(self) -> bool:
        """Whether the least or the largest sides differ."""
        sizes = self.least, self.largest
        return any(height != width for height, width in sizes)

    def __str__(self) -> str:
        sizes = dict.fromkeys((self.least, self.largest))
        extremes = " to ".join(f"{height} x {width}" for height, width in sizes)
        color = "color" if self.coloured else "gray"
        return f"{extremes}, {color}"


def survey_images(images: Sequence[Image]) -> ImageSurvey:
    """Find the sizes and colors of a sample of at least one image.

    Raises:
        InputError: A file can't be read.
    """
    step = max(1, len(images) // SURVEYED)
    sample = [read_image(image) for image in images[::step]]
    shapes = [pixels.shape for pixels in sample]
    heights, widths, _ = zip(*shapes, strict=True)
    # unsigned numbers, of which the greater is the first
    tints = [np.ptp(pixels, axis=2).max() for pixels in sample]
    least = min(heights), min(widths)
    largest = max(heights), max(widths)
    has_color = max(tints) > LEAST_TINT
    return ImageSurvey(least, largest, coloured=bool(has_color))
