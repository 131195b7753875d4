"""The conversion of an image of any size to a model's input."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from jaxtyping import Float, UInt8
from pydantic import Field
from torch import Tensor

from regard.errors import InputError
from regard.images.files import MODES, MOST_PIXELS, decode_image, pillow, read_image

Pixels = UInt8[np.ndarray, "height width channel"]
Image = Path | str | bytes | np.ndarray
"""The path of a file, its content, or an array of uint8 `(height, width)` or `(height, width, channel)`."""
LONGEST = 384
"""The most pixels of a side of a photograph that is drawn or sent to a page."""
Resampling = Literal["nearest", "lanczos", "bilinear", "bicubic", "box", "hamming"]
Side = Annotated[int, Field(ge=1)]


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """Resize the shorter side to `resize` pixels (both sides with `shape: stretched`), crop the middle `size` x `size`,
    scale to 0 to 1, subtract `mean` and divide by `deviation`, one number or one a channel. `size` is by default the
    model's, `resize` is by default `size`.

    size: The side of the middle that is cropped, in pixels; by default the model's.
    resize: The length of the shorter side before, in pixels; by default `size`.
    shape: With `kept` the shorter side is resized, with `stretched` both are.
    mean: Subtracted from the values of pixels in 0 to 1; one number, or one a channel.
    deviation: The divisor after that; one number, or one a channel.
    """

    size: Side | None = None
    resize: Side | None = None
    shape: Literal["kept", "stretched"] = "kept"
    resample: Resampling = "bilinear"
    mean: tuple[float, ...] = (0.5,)
    deviation: tuple[float, ...] = (0.5,)

    def __post_init__(self) -> None:
        if self.size is not None and (self.resize or self.size) < self.size:
            raise ValueError(
                f"resize is {self.resize}, less than the {self.size} pixels of size; raise it"
            )
        if min(self.deviation, default=0.0) <= 0:
            raise ValueError(
                f"deviation is {list(self.deviation)}; expected numbers above 0"
            )

    def check_channels(self, channels: int) -> None:
        """Raise ValueError where mean or deviation have another number of channels."""
        for name in ("mean", "deviation"):
            numbers = len(getattr(self, name))
            if numbers not in (1, channels):
                raise ValueError(
                    f"images.{name} has {numbers} numbers; expected 1, or {channels}"
                )

    def pixels(
        self, image: Image, size: int, channels: int, place: str = "the image"
    ) -> Pixels:
        """The resized and cropped image, `size` x `size` unless the preparation has its own size. Messages call an
        array `place`.

        Raises:
            InputError: the file cannot be read as an image, or the array has another shape.
        """
        found = _read(image, channels, place)
        size = self.size or size
        resize = max(self.resize or size, size)
        height, width = found.shape[:2]
        scaled = (
            height * resize // min(height, width),
            width * resize // min(height, width),
        )
        if scaled[0] * scaled[1] > MOST_PIXELS:
            name = place if isinstance(image, np.ndarray | bytes) else image
            raise InputError(
                f"{name}: {width} x {height} pixels are too long and thin; crop the image"
            )
        found = self._resized(
            found, (resize, resize) if self.shape == "stretched" else scaled
        )
        top, left = (found.shape[0] - size) // 2, (found.shape[1] - size) // 2
        return found[top : top + size, left : left + size]

    def photograph(self, image: Image, size: int, place: str = "the image") -> Pixels:
        """The part of an image that `pixels` has, in the image's own colours and resolution, at most `LONGEST` pixels a
        side. Raises InputError as `pixels` does."""
        found = (
            _read(image, 3, place)
            if not isinstance(image, np.ndarray)
            else _with_channels(image)
        )
        size = self.size or size
        share = size / max(self.resize or size, size)
        height, width = found.shape[:2]
        sides = (
            (height, width) if self.shape == "stretched" else (min(height, width),) * 2
        )
        tall, wide = (max(1, round(share * each)) for each in sides)
        top, left = (height - tall) // 2, (width - wide) // 2
        part = found[top : top + tall, left : left + wide]
        less = min(1.0, LONGEST / max(tall, wide))
        return self._resized(
            part, (max(1, round(less * tall)), max(1, round(less * wide)))
        )

    def tensor(
        self, pixels: UInt8[np.ndarray, "*batch height width channel"]
    ) -> Float[Tensor, "*batch channel height width"]:
        """Pixels as normalised numbers. Raises InputError where mean or deviation have another number of channels."""
        channels = pixels.shape[-1]
        mean, deviation = (
            _of_channels(name, getattr(self, name), channels)
            for name in ("mean", "deviation")
        )
        scaled = (pixels / 255 - mean) / deviation
        return torch.from_numpy(
            np.ascontiguousarray(np.moveaxis(scaled, -1, -3), dtype=np.float32)
        )

    def _resized(self, pixels: np.ndarray, target: tuple[int, int]) -> np.ndarray:
        if pixels.shape[:2] == target:
            return pixels
        library = pillow()
        grey = pixels.shape[2] == 1
        whole: Any = library.Image.fromarray(pixels[:, :, 0] if grey else pixels)
        resized = whole.resize(
            (target[1], target[0]), library.Image.Resampling[self.resample.upper()]
        )
        found = np.asarray(resized)
        return found[:, :, None] if grey else found


def _read(image: Image, channels: int, place: str) -> Pixels:
    """An image of any form with these channels."""
    if isinstance(image, np.ndarray):
        return _checked(image, channels, place)
    return (
        decode_image(image, channels, place)
        if isinstance(image, bytes)
        else read_image(image, channels)
    )


def _with_channels(array: np.ndarray) -> np.ndarray:
    return array[:, :, None] if array.ndim == 2 else array


def _checked(array: np.ndarray, channels: int, place: str) -> Pixels:
    found = _with_channels(array)
    if (
        found.dtype != np.uint8
        or found.ndim != 3
        or 0 in found.shape
        or found.shape[2] not in (1, channels)
    ):
        colours = " or ".join(str(each) for each in sorted({1, channels} & set(MODES)))
        raise InputError(
            f"{place}: is {array.dtype} {array.shape}; expected uint8 (height, width) or (height, width, "
            f"channel) with {colours} channels"
        )
    return found if found.shape[2] == channels else np.repeat(found, channels, axis=2)


def _of_channels(name: str, numbers: tuple[float, ...], channels: int) -> np.ndarray:
    if len(numbers) not in (1, channels):
        raise InputError(
            f"images.{name} has {len(numbers)} numbers; expected 1, or {channels} as the model has channels"
        )
    return np.array(numbers)
