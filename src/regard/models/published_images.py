"""The preparation of images for published models."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np

from regard.errors import InputError
from regard.images import Preparation, Resampling
from regard.models.pretrained import PretrainedVisionConfig
from regard.models.published import load_part
from regard.storage.published_folder import PublishedFolder

RESAMPLING: tuple[Resampling, ...] = get_args(Resampling)
"""Resampling filters in the order of Pillow's numbers."""


FIXED = {
    "do_resize": True,
    "do_rescale": True,
    "do_pad": False,
    "rescale_factor": 1 / 255,
}
"""Settings of an image processor with the only value that regard computes."""


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
    size, patch = (
        int(np.max(getattr(values, key, usual)))
        for key, usual in (("image_size", 224), ("patch_size", 16))
    )
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
    values = load_part(folder, "AutoImageProcessor").to_dict()
    try:
        return _convert(values, size)
    except (ValueError, IndexError, TypeError) as error:
        raise InputError(f"{folder.path}: its image processor has {error}") from error


def _convert(values: Mapping[str, Any], size: int) -> Preparation:
    """Convert the settings of an image processor."""
    for key, expected in FIXED.items():
        value = values.get(key) or False
        if not math.isclose(value, expected, rel_tol=1e-6):
            raise ValueError(f"{key} {value!r}; regard computes {expected} only")
    resize, shape = _side_of(values.get("size"))
    side = resize
    if values.get("do_center_crop"):
        side, _ = _side_of(values.get("crop_size"))
    elif shape == "kept":
        raise ValueError("images of any shape without a crop; regard takes squares")
    colors: dict[str, tuple[float, ...]] = {"mean": (0.0,), "deviation": (1.0,)}
    if values.get("do_normalize", True):
        for name, key in (("mean", "image_mean"), ("deviation", "image_std")):
            numbers = np.atleast_1d(values.get(key, ()))
            colors[name] = tuple(map(float, numbers))
    return Preparation(
        size=None if side == size else side,
        resize=None if resize == side else resize,
        shape=shape,
        resample=RESAMPLING[int(values.get("resample", 2))],
        **colors,
    )


def _side_of(value: Any) -> tuple[int, Literal["stretched", "kept"]]:
    """Return the pixels of a square, or of the shorter side where the shape is kept."""
    sides = {"height": value, "width": value}
    if not isinstance(value, int):
        sides = {name: side for name, side in (value or {}).items() if side is not None}
    if {*sides} == {"height", "width"} and sides["height"] == sides["width"]:
        return int(sides["height"]), "stretched"
    if {*sides} == {"shortest_edge"}:
        return int(sides["shortest_edge"]), "kept"
    raise ValueError(
        f"the size {value!r}; expected pixels of a square or of the shorter side"
    )
