"""Image preparation of published models: preprocessor_config.json."""

import math
from typing import Any, get_args

from regard.errors import InputError
from regard.hub.formats.folder import Folder
from regard.hub.formats.settings import Settings
from regard.images import Preparation
from regard.images.preparation import Resampling
from regard.models.vit import VitConfig

PREPROCESSOR = "preprocessor_config.json"
RESAMPLING: tuple[Resampling, ...] = get_args(Resampling)
"""Resampling filters in the order of Pillow's numbers."""
CROPPING = ("DeiT", "CLIP")
"""Prefixes of processors that crop and resample bicubically by default."""
USED = (
    "size",
    "crop_size",
    "do_center_crop",
    "do_normalize",
    "image_mean",
    "image_std",
    "resample",
    "rescale_factor",
)
FIXED = {
    "do_resize": (True,),
    "do_rescale": (True,),
    "do_pad": (False, None),
    "crop_pct": (None,),
}
IGNORED = (
    *(
        "image_processor_type",
        "feature_extractor_type",
        "processor_class",
        "do_convert_rgb",
        "data_format",
    ),
    *(
        "input_data_format",
        "device",
        "default_to_square",
        "disable_grouping",
        "pad_size",
        "return_tensors",
    ),
    *("image_seq_length",),
)


def read(folder: Folder, config: VitConfig) -> Preparation:
    """Read the image preparation in a folder. Raises InputError for a preparation that regard does not compute."""
    place = str(folder.path / PREPROCESSOR)
    if not folder.has(PREPROCESSOR):
        raise InputError(f"{place}: no such file; expected the preparation of images")
    settings = Settings(folder.json(PREPROCESSOR), place)
    settings.check(USED, FIXED, IGNORED)
    values = settings.values
    factor = values.get("rescale_factor", 1 / 255)
    if not isinstance(factor, int | float) or not math.isclose(
        factor, 1 / 255, rel_tol=1e-6
    ):
        raise InputError(
            f"{place}: rescale_factor is {factor!r}; regard scales by 1 / 255 only"
        )
    resize, shape = _sides(values.get("size"), "size", place)
    kind = (
        values.get("image_processor_type") or values.get("feature_extractor_type") or ""
    )
    crops = str(kind).startswith(CROPPING)
    size = resize
    if values.get("do_center_crop", crops):
        size, _ = _sides(values.get("crop_size"), "crop_size", place)
    elif shape == "kept":
        raise InputError(
            f"{place}: size keeps the shape of images without a crop; regard takes squares"
        )
    if size % config.patch:
        raise InputError(
            f"{place}: images of {size} pixels are no whole number of patches of {config.patch}"
        )
    mean, deviation = (
        _numbers(values, key, config.channels, place)
        for key in ("image_mean", "image_std")
    )
    number = values.get(
        "resample", RESAMPLING.index("bicubic" if crops else "bilinear")
    )
    if not isinstance(number, int) or not 0 <= number < len(RESAMPLING):
        raise InputError(
            f"{place}: resample is {number!r}; expected a whole number below {len(RESAMPLING)}"
        )
    try:
        return Preparation(
            size=None if size == config.image else size,
            resize=None if resize == size else resize,
            shape=shape,
            resample=RESAMPLING[number],
            mean=mean if values.get("do_normalize", True) else (0.0,),
            deviation=deviation if values.get("do_normalize", True) else (1.0,),
        )
    except ValueError as error:
        raise InputError(f"{place}: {error}") from error


def preprocessor_config(images: Preparation, config: VitConfig) -> dict[str, Any]:
    """Return the preprocessor_config.json of a preparation."""
    size = images.size or config.image
    resize = images.resize or size
    cropped = images.shape == "kept" or resize != size
    square = {"height": resize, "width": resize}
    kind = (
        "CLIPImageProcessor"
        if images.shape == "kept"
        else "DeiTImageProcessor"
        if cropped
        else "ViTImageProcessor"
    )
    return {
        "image_processor_type": kind,
        "do_convert_rgb": config.channels == 3,
        "do_resize": True,
        "size": {"shortest_edge": resize} if images.shape == "kept" else square,
        "resample": RESAMPLING.index(images.resample),
        "do_center_crop": cropped,
        **({"crop_size": {"height": size, "width": size}} if cropped else {}),
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": _every(images.mean, config.channels),
        "image_std": _every(images.deviation, config.channels),
    }


def _every(numbers: tuple[float, ...], channels: int) -> list[float]:
    return list(numbers if len(numbers) == channels else numbers * channels)


def _sides(value: Any, key: str, place: str) -> tuple[int, Any]:
    """Return the pixels of both sides, or of the shorter side for images whose shape is kept."""
    match value:
        case int(side) | {"height": int(side)} if side > 0 and value in (
            side,
            {"height": side, "width": side},
        ):
            return side, "stretched"
        case {"shortest_edge": int(side)} if side > 0 and len(value) == 1:
            return side, "kept"
    raise InputError(
        f"{place}: {key} is {value!r}; expected pixels, of a square or of the shorter side"
    )


def _numbers(values: Any, key: str, channels: int, place: str) -> tuple[float, ...]:
    value = values.get(key)
    values = value if isinstance(value, list) else [value]
    if len(values) not in (1, channels) or not all(
        isinstance(each, int | float) for each in values
    ):
        raise InputError(
            f"{place}: {key} is {value!r}; expected a number, or one for each of {channels} channels"
        )
    return tuple(map(float, values))
