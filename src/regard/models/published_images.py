"""Published models of images: their preparation of images, and their states as a trunk."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from regard.errors import InputError
from regard.images import Preparation, Resampling
from regard.models.pretrained import Pretrained, PretrainedVisionConfig, build_network
from regard.models.published import (
    UNRELATED,
    accepts,
    find_published,
    library_call,
    library_config,
    load_part,
    read_settings,
    require_transformers,
)
from regard.models.sizes import Size
from regard.models.vit import Pixels
from regard.shapes import States
from regard.storage.published_folder import PublishedFolder

RESAMPLING: tuple[Resampling, ...] = get_args(Resampling)
"""Resampling filters in the order of Pillow's numbers."""


FIXED = {
    "do_resize": True,
    "do_rescale": True,
    "do_pad": False,
    "rescale_offset": False,
    "rescale_factor": 1 / 255,
}
"""Settings of an image processor with the only value that regard computes."""
STRETCHED = 384
"""The side from which processors with a `crop_pct` stretch images and crop nothing."""
MOST_MARKS = 8
"""The most positions before the cells, such as [CLS] and registers."""


@dataclass(frozen=True)
class TowerConfig:
    """A published network of images without its head; training fills it in.

    Attributes:
        settings: The published configuration.
        cells: Cells along a side of an image.
        marks: Positions before the cells, such as [CLS].
        width: The width of a state.
        channels: 1 for gray images, 3 for color.
    """

    name: Literal["published"] = "published"
    settings: Mapping[str, Any] = field(default_factory=dict)
    cells: Size = 1
    marks: int = 0
    width: Size = 1
    channels: Literal[1, 3] = 3

    def network_config(self) -> Any:
        """Return the configuration object of transformers."""
        return library_config(self.settings)

    def grid_side(self, image: int) -> int:
        """Return the cells along a side of an image, whose size training has fixed."""
        return self.cells

    def encoder(self) -> "PublishedTower":
        """Return the network, with fresh weights."""
        return PublishedTower(self)


class PublishedTower(Pretrained):
    """The states of all positions of images, `last_hidden_state` of a published network."""

    def __init__(self, config: TowerConfig):
        super().__init__(build_network(config, "AutoModel"))
        self.config = config

    def run(self, pixels: Pixels) -> Tensor:
        """Return the states as the network does: in a row or in a grid."""
        resizes = accepts(self.network.forward, "interpolate_pos_encoding")
        options = {"interpolate_pos_encoding": True} if resizes else {}
        return self.network(pixel_values=pixels, **options).last_hidden_state

    def forward(self, pixels: Pixels) -> States:
        """Return the states `(batch, position, width)` of pixels, the cells last."""
        states = self.run(pixels)
        return states.flatten(2).mT if states.ndim == 4 else states


@dataclass(frozen=True)
class PublishedSource:
    """What a run file takes from a published model of images."""

    model: TowerConfig
    images: Preparation
    size: int
    """The side of its images in pixels."""


def read_tower(path: str, image: int | None) -> PublishedSource:
    """Read a published network of images, or the tower for images of CLIP and its kind.

    Args:
        path: A folder, or a model's name on the hub, OWNER/NAME.
        image: The side of images in pixels; by default as published.

    Raises:
        InputError: It is missing, unsafe or incomplete, reads no images or returns no
            square of cells.
        RunError: The hub does not answer.
    """
    folder = find_published(path)[0]
    values = library_config(read_settings(folder))
    values = getattr(values, "vision_config", values)
    kind = values.model_type
    auto = require_transformers(path).models.auto.modeling_auto
    classifiers = auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES
    if not kind.endswith("vision_model") and not (
        kind in classifiers or kind in auto.MODEL_FOR_BACKBONE_MAPPING_NAMES
    ):
        raise InputError(
            f"{folder.path}: is a model of type {kind}, which has no states of the parts "
            "of an image. Expected a classifier or encoder of images, such as vit, "
            "clip, dinov2, swin, convnext, resnet or efficientnet."
        )
    settings = {
        key: value
        for key, value in values.to_diff_dict().items()
        if key not in UNRELATED
    }
    channels = getattr(values, "num_channels", 3)
    if channels not in (1, 3):
        raise InputError(
            f"{folder.path}: reads images of {channels} channels; expected 1 or 3"
        )
    usual = int(np.max(getattr(values, "image_size", 224)))
    images = read_preparation(folder, usual)
    published = images.size or usual
    size = image or published
    if size != published:
        images = images.rescale(size, published)
    config = TowerConfig(settings=settings | {"model_type": kind}, channels=channels)
    with (
        library_call(
            f"{folder.path}: transformers cannot read images of {size} pixels"
        ),
        torch.device("meta"),
        torch.random.fork_rng(devices=[]),
    ):
        pixels = torch.zeros(1, channels, size, size)
        shape = PublishedTower(config).eval().run(pixels).shape
    patch = int(np.max(getattr(values, "patch_size", size)))
    cells, marks = find_cells(shape, size // patch, str(folder.path))
    width = shape[1] if len(shape) == 4 else shape[2]
    model = replace(config, cells=cells, marks=marks, width=width)
    return PublishedSource(model, images, size)


def find_cells(shape: torch.Size, patches: int, location: str) -> tuple[int, int]:
    """Return the cells along a side, and the number of positions before the cells.

    Args:
        shape: That of states, `(1, width, row, column)` or `(1, position, width)`.
        patches: The patches along a side of an image.
        location: What a message begins with.

    Raises:
        InputError: They are no square.
    """
    if len(shape) == 4 and shape[2] == shape[3]:
        return shape[2], 0
    if len(shape) == 3:
        # networks that merge patches end with fewer cells than patches
        for cells in (patches, math.isqrt(shape[1])):
            marks = shape[1] - cells**2
            if 0 <= marks <= MOST_MARKS:
                return cells, marks
    raise InputError(
        f"{location}: returns states {(*shape,)} for an image, which are no square of "
        "cells"
    )


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
    share = values.get("crop_pct")
    if share is not None and side >= STRETCHED:
        shape = "stretched"
    elif share is not None:
        resize = int(side / share)
    elif values.get("do_center_crop"):
        side, _ = _side_of(values.get("crop_size"))
    elif shape == "kept":
        raise ValueError("images of any shape without a crop; regard takes squares")
    colors: dict[str, tuple[float, ...]] = {"mean": (0.0,), "deviation": (1.0,)}
    if values.get("do_normalize", True):
        for name, key in (("mean", "image_mean"), ("deviation", "image_std")):
            numbers = np.atleast_1d(values.get(key, ()))
            colors[name] = tuple(map(float, numbers))
        if values.get("include_top"):  # EfficientNet's divides twice
            colors["deviation"] = tuple(number**2 for number in colors["deviation"])
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
