"""The preparation of images for published models."""

import math
from dataclasses import replace
from typing import Any, get_args

from regard.errors import InputError
from regard.images import Preparation, Resampling
from regard.models.pretrained import PretrainedVisionConfig
from regard.models.published import load_part
from regard.storage.published_folder import PublishedFolder

RESAMPLING: tuple[Resampling, ...] = get_args(Resampling)
"""Resampling filters in the order of Pillow's numbers."""


def complete_images(
    model: PretrainedVisionConfig,
) -> tuple[PretrainedVisionConfig, Preparation]:
    """Read the published configuration and the preparation of images.

    Raises:
        InputError: The folder is missing or unsafe, or prepares images otherwise.
        RunError: The hub does not answer.
    """
    folder = model.folder()
    config = model.with_settings(folder)
    values = config.network_config()
    values = getattr(values, "vision_config", values)
    size, patch = getattr(values, "image_size", 224), getattr(values, "patch_size", 16)
    size = size[0] if isinstance(size, list | tuple) else size
    patch = patch[0] if isinstance(patch, list | tuple) else patch
    preparation = read_preparation(folder, size)
    side = preparation.size or size
    if side % patch:
        raise InputError(
            f"{folder.path}: images of {side} pixels are no whole number of patches "
            f"of {patch}"
        )
    return replace(config, image=size, patch=patch), preparation


def read_preparation(folder: PublishedFolder, size: int) -> Preparation:
    """Return the preparation of images of a published model.

    Args:
        folder: The folder of the model.
        size: Side of the model's images in pixels.

    Raises:
        InputError: The library has no processor for it, or it does something else than
            resize, crop, scale and normalize.
    """
    processor = load_part(folder, "AutoImageProcessor")
    return convert_preparation(processor, size, str(folder.path))


def convert_preparation(processor: Any, size: int, place: str) -> Preparation:
    """Convert an image processor of transformers; see `read_preparation`."""
    values = processor.to_dict()
    for key, expected in (("do_resize", True), ("do_rescale", True), ("do_pad", False)):
        if (values.get(key) or False) != expected:
            raise InputError(
                f"{place}: {key} of its image processor is {values.get(key)!r}; regard "
                f"computes {expected} only"
            )
    factor = values.get("rescale_factor", 1 / 255)
    if not math.isclose(factor, 1 / 255, rel_tol=1e-6):
        raise InputError(
            f"{place}: rescale_factor is {factor!r}; regard scales by 1 / 255 only"
        )
    resize, shape = _side_of(values.get("size"), "size", place)
    side = resize
    if values.get("do_center_crop"):
        side, _ = _side_of(values.get("crop_size"), "crop_size", place)
    elif shape == "kept":
        raise InputError(
            f"{place}: size keeps the shape of images without a crop; regard takes "
            "squares"
        )
    number = values.get("resample", RESAMPLING.index("bilinear"))
    normalizes = values.get("do_normalize", True)
    mean = _numbers(values.get("image_mean")) if normalizes else (0.0,)
    deviation = _numbers(values.get("image_std")) if normalizes else (1.0,)
    try:
        return Preparation(
            size=None if side == size else side,
            resize=None if resize == side else resize,
            shape=shape,
            resample=RESAMPLING[int(number)],
            mean=mean,
            deviation=deviation,
        )
    except (ValueError, IndexError) as error:
        raise InputError(f"{place}: {error}") from error


def _side_of(value: Any, key: str, place: str) -> tuple[int, Any]:
    """Return the pixels of a square, or of the shorter side where the shape is kept."""
    sides = {} if isinstance(value, int) else dict(value or {})
    sides = {name: side for name, side in sides.items() if side is not None}
    if isinstance(value, int):
        return value, "stretched"
    if set(sides) == {"height", "width"} and sides["height"] == sides["width"]:
        return int(sides["height"]), "stretched"
    if set(sides) == {"shortest_edge"}:
        return int(sides["shortest_edge"]), "kept"
    raise InputError(
        f"{place}: {key} is {value!r}; expected pixels of a square or of the shorter side"
    )


def _numbers(value: Any) -> tuple[float, ...]:
    values = value if isinstance(value, list | tuple) else [value]
    return tuple(float(number) for number in values)
