"""Image files, their preparation for a model, augmentation and previews."""

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
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
        except library.Image.DecompressionBombError as error:
            raise InputError(
                f"{location}: has more than {MOST_PIXELS:,} pixels; make it smaller"
            ) from error
        except library.UnidentifiedImageError as error:
            raise InputError(
                f"{location}: is no image of a supported format "
                f"({', '.join(FORMATS)}); convert it"
            ) from error
        except Exception as error:  # a decoder may raise anything for broken bytes
            reason = " ".join(str(error).split()) or type(error).__name__
            raise InputError(
                f"{location}: broken, truncated or unusual image ({reason}); save it as "
                "PNG"
            ) from error


def count_pixels(content: bytes) -> int:
    """Return the pixels that a header claims, without decoding; 0 if it is no image."""
    try:
        with open_image(BytesIO(content), "the image") as image:
            return image.width * image.height
    except InputError:  # whoever reads the content says what is wrong with it
        return 0


def read_image(image: Image, channels: int = 3, location: str = "the image") -> Pixels:
    """Read an image, gray (1 channel) or red, green and blue (3).

    A file is rotated as its EXIF orientation says. Transparent pixels become white, 16
    bits become 8, and an animation gives its first frame.

    Args:
        image: The path of a file, its content, or an array.
        channels: The number of channels of the result.
        location: What to call content or array in an error.

    Raises:
        InputError: A file is missing, no image, broken, cut short or too large; an array
            is of another type or shape.
    """
    if isinstance(image, np.ndarray):
        pixels = image
        if image.ndim == 2:
            pixels = image[:, :, None]
        fits = pixels.dtype == np.uint8 and pixels.ndim == 3 and pixels.size
        if not fits or pixels.shape[2] not in (1, channels):
            raise InputError(
                f"{location}: is {image.dtype} {image.shape}; expected uint8 (height, "
                f"width) or (height, width, channel) with 1 or {channels} channels"
            )
        return np.repeat(pixels, channels // pixels.shape[2], axis=2)
    if isinstance(image, bytes):
        file = BytesIO(image)
    else:
        file = Path(image)
        if not file.is_file():
            problem = "no such file"
            if file.is_dir():
                problem = "is a directory"
            elif file.exists():
                problem = "is no regular file"
            raise InputError(f"{file}: {problem}; expected an image")
        location = str(file)
    with open_image(file, location) as opened:
        upright = pillow().ImageOps.exif_transpose(opened)
        converted = _to_opaque_bytes(upright).convert(MODES[channels])
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
        rounded = pixels.astype(np.int64) + 128
        reduced = (rounded // 257).astype(np.uint8)
        return library.Image.fromarray(reduced)
    if not image.has_transparency_data:
        return image
    transparent = image.convert("RGBA")
    background = library.Image.new("RGBA", transparent.size, "white")
    opaque = library.Image.alpha_composite(background, transparent)
    return opaque.convert("RGB")


def _to_pillow(pixels: Pixels) -> Any:
    if pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    return pillow().Image.fromarray(np.ascontiguousarray(pixels))


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
            InputError: The image can't be read, as `read_image`, or it is too long and
                thin.
        """
        pixels = read_image(image, channels, location)
        size = self.size or size
        resize = max(self.resize or size, size)
        original_height, original_width = pixels.shape[:2]
        shorter = min(original_height, original_width)
        height = original_height * resize // shorter
        width = original_width * resize // shorter
        if height * width > MOST_PIXELS:
            if isinstance(image, Path | str):
                location = str(image)
            raise InputError(
                f"{location}: {original_width} x {original_height} pixels are too long and "
                "thin; crop the image"
            )
        if self.shape == "stretched":
            height = width = resize
        if (height, width) != (original_height, original_width):
            method = pillow().Image.Resampling[self.resample.upper()]
            resized = _to_pillow(pixels).resize((width, height), method)
            pixels = np.asarray(resized).reshape(height, width, channels)
        top = (height - size) // 2
        left = (width - size) // 2
        return pixels[top : top + size, left : left + size]

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
        fitting = min(LONGEST_SIDE // size, detail)
        scale = max(1, fitting)
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
        contiguous = np.ascontiguousarray(channels_first, dtype=np.float32)
        return torch.from_numpy(contiguous)


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
        shift = self.shift
        if shift:
            height, width = pixels.shape[:2]
            top = random.randint(0, 2 * shift)
            left = random.randint(0, 2 * shift)
            padded = np.pad(
                pixels,
                ((shift, shift), (shift, shift), (0, 0)),
                constant_values=self.outside,
            )
            pixels = padded[top : top + height, left : left + width]
        if not (self.turn or self.stretch or self.slant):
            return pixels

        def sample(limit: float) -> float:
            return random.uniform(-limit, limit)

        degrees = sample(self.turn)
        slant = sample(self.slant)
        width_factor = 1 + sample(self.stretch)
        height_factor = 1 + sample(self.stretch)
        return warp(
            pixels,
            degrees,
            (width_factor, height_factor),
            slant,
            self.outside,
        )


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
    width_factor, height_factor = scale
    angle = math.radians(degrees)
    cos = math.cos(angle)
    sin = math.sin(angle)
    middle_x = width / 2
    middle_y = height / 2
    # The rows of diag(scale)^-1 [[1, 0], [-slant, 1]] R(-degrees): where each pixel of
    # the result comes from, relative to the middle.
    xx = cos / width_factor
    xy = sin / width_factor
    yx = (-slant * cos - sin) / height_factor
    yy = (cos - slant * sin) / height_factor
    x_offset = middle_x - xx * middle_x - xy * middle_y
    y_offset = middle_y - yx * middle_x - yy * middle_y
    library = pillow()
    image = _to_pillow(pixels).transform(
        (width, height),
        library.Image.Transform.AFFINE,
        (xx, xy, x_offset, yx, yy, y_offset),
        resample=library.Image.Resampling.BILINEAR,
        fillcolor=outside if channels == 1 else (outside,) * channels,
    )
    return np.asarray(image).reshape(pixels.shape)


def encode_preview(image: Image) -> bytes:
    """Encode an image of at most `PREVIEW_SIDE` pixels a side, for a page.

    Raises:
        InputError: The image can't be read, or Pillow isn't installed.
    """
    pixels = read_image(image)
    image_format = "JPEG"
    first = pixels[:, :, :1]
    if (pixels == first).all():
        pixels = first
        image_format = "PNG"
    reduced = _to_pillow(pixels)
    reduced.thumbnail((PREVIEW_SIDE, PREVIEW_SIDE))
    content = BytesIO()
    reduced.save(content, format=image_format, quality=PREVIEW_QUALITY)
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
        return any(height != width for height, width in (self.least, self.largest))

    def __str__(self) -> str:
        sizes = []
        for height, width in (self.least, self.largest):
            sizes.append(f"{height} x {width}")
        extremes = " to ".join(dict.fromkeys(sizes))
        color = "color" if self.coloured else "gray"
        return f"{extremes}, {color}"


def survey_images(images: Sequence[Image]) -> ImageSurvey:
    """Find the sizes and colors of a sample of at least one image.

    Raises:
        InputError: A file can't be read.
    """
    heights = []
    widths = []
    colored = False
    step = max(1, len(images) // SURVEYED)
    for image in images[::step]:
        pixels = read_image(image).astype(np.int16)
        tint = pixels.max(2) - pixels.min(2)
        if tint.max() > LEAST_TINT:
            colored = True
        height, width, _ = pixels.shape
        heights.append(height)
        widths.append(width)
    return ImageSurvey(
        least=(min(heights), min(widths)),
        largest=(max(heights), max(widths)),
        coloured=colored,
    )
