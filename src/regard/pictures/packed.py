"""Arrays as text that a page unpacks: few bytes for many weights, none of them dropped."""

import zlib
from base64 import b64encode
from functools import cache
from typing import Any

import numpy as np

EXACT = 1 << 14
"""Up to so many weights are kept as they are, in float32; more are rounded to 256 levels."""
NEAR_ZERO = 9
"""Levels that are squares, (i / 63)^2; from there on the levels are even, and 1 is the last."""
FINENESS = 1 << 16
BYTES = 0.58
"""Of a rounded weight in the text, where rows are drawn evenly from all that sum to 1; those of models need less."""


@cache
def levels(count: int) -> np.ndarray:
    """`count` numbers from 0 to 1, closer together near 0, where most weights of a long row are."""
    near = (np.arange(NEAR_ZERO) / 63) ** 2
    return np.concatenate([near, np.linspace(near[-1], 1, count - NEAR_ZERO + 1)[1:]])


@cache
def _nearest(count: int) -> np.ndarray:
    """For each part of 0 to 1 which of the levels is the nearest."""
    found = levels(count)
    between = (found[1:] + found[:-1]) / 2
    return np.searchsorted(between, np.linspace(0, 1, FINENESS + 1)).astype(np.uint8)


def packed_map(name: str, weights: np.ndarray, *, amounts: bool = False) -> dict[str, Any]:
    """A map by its name: little-endian float32, or a byte a weight with the `levels` that bytes stand for. `scale` is
    what is drawn darkest: 1, or the greatest size where that is more, where some are negative, and of amounts."""
    greatest, signed = float(np.abs(weights).max(initial=0.0)), bool((weights < 0).any())
    scale = greatest if signed or greatest > 1 + 1e-5 or (amounts and greatest > 0) else 1.0
    about = {"name": name, "scale": scale, "signed": signed} | ({"amounts": True} if amounts else {})
    if weights.size <= EXACT:
        return about | {"levels": None, "data": deflated(weights.astype("<f4").tobytes())}
    count = 128 if signed else 256
    share = np.rint(np.minimum(np.abs(weights) / max(scale, np.finfo(float).tiny), 1.0) * FINENESS).astype(np.int32)
    codes, values = _nearest(count)[share], levels(count) * scale
    if signed:
        codes, values = np.where(weights < 0, 127 - codes, codes + 128).astype(np.uint8), np.r_[-values[::-1], values]
    return about | {"levels": [float(f"{value:.5g}") for value in values], "data": deflated(codes.tobytes())}


def packed_vectors(vectors: np.ndarray) -> dict[str, Any]:
    """Vectors as 16-bit integers, times `step`."""
    step = float(np.abs(vectors).max(initial=0.0)) / 32767 or 1.0
    data = deflated(np.rint(vectors / step).astype("<i2").tobytes())
    return {"step": step, "width": vectors.shape[-1], "data": data}


def deflated(content: bytes) -> str:
    """Base64 of the zlib form. Runs of equal bytes are found and no other repetition: attention has none."""
    packer = zlib.compressobj(6, zlib.DEFLATED, 15, 9, zlib.Z_RLE)
    return b64encode(packer.compress(content) + packer.flush()).decode()
