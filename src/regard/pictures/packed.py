"""Arrays as text for a page: a few bytes per weight, with all weights kept."""

import zlib
from base64 import b64encode
from functools import cache
from typing import Any

import numpy as np

EXACT = 1 << 14
"""The maximum of weights stored exactly, in float32; larger maps are rounded to 256 levels."""
NEAR_ZERO = 9
"""The number of levels that are squares, (i / 63)^2. The others are evenly spaced up to 1."""
FINENESS = 1 << 16
BYTES = 0.58
"""Bytes of text per rounded weight for rows sampled uniformly from the simplex; those of models need fewer."""


@cache
def levels(count: int) -> np.ndarray:
    """`count` levels from 0 to 1, denser near 0, where most weights of a long row are."""
    near = (np.arange(NEAR_ZERO) / 63) ** 2
    return np.concatenate([near, np.linspace(near[-1], 1, count - NEAR_ZERO + 1)[1:]])


@cache
def _nearest(count: int) -> np.ndarray:
    """The nearest level for each part of 0 to 1."""
    found = levels(count)
    between = (found[1:] + found[:-1]) / 2
    return np.searchsorted(between, np.linspace(0, 1, FINENESS + 1)).astype(np.uint8)


def packed_map(
    name: str, weights: np.ndarray, *, amounts: bool = False
) -> dict[str, Any]:
    """A map with its name: little-endian float32, or one byte per weight with the `levels` of the bytes. `scale` is the
    darkest value: 1, or the greatest magnitude if that is larger, and for signed maps and amounts."""
    greatest, signed = (
        float(np.abs(weights).max(initial=0.0)),
        bool((weights < 0).any()),
    )
    scale = (
        greatest if signed or greatest > 1 + 1e-5 or (amounts and greatest > 0) else 1.0
    )
    about = {"name": name, "scale": scale, "signed": signed} | (
        {"amounts": True} if amounts else {}
    )
    if weights.size <= EXACT:
        return about | {
            "levels": None,
            "data": deflated(weights.astype("<f4").tobytes()),
        }
    count = 128 if signed else 256
    share = np.rint(
        np.minimum(np.abs(weights) / max(scale, np.finfo(float).tiny), 1.0) * FINENESS
    ).astype(np.int32)
    codes, values = _nearest(count)[share], levels(count) * scale
    if signed:
        codes, values = (
            np.where(weights < 0, 127 - codes, codes + 128).astype(np.uint8),
            np.r_[-values[::-1], values],
        )
    return about | {
        "levels": [float(f"{value:.5g}") for value in values],
        "data": deflated(codes.tobytes()),
    }


def packed_vectors(vectors: np.ndarray) -> dict[str, Any]:
    """Vectors as 16-bit integers times `step`."""
    step = float(np.abs(vectors).max(initial=0.0)) / 32767 or 1.0
    data = deflated(np.rint(vectors / step).astype("<i2").tobytes())
    return {"step": step, "width": vectors.shape[-1], "data": data}


def deflated(content: bytes) -> str:
    """Base64 of the zlib form. zlib searches for runs of equal bytes only, as attention has no other repetitions."""
    packer = zlib.compressobj(6, zlib.DEFLATED, 15, 9, zlib.Z_RLE)
    return b64encode(packer.compress(content) + packer.flush()).decode()
