"""Lookups as plain values for JSON, the input of the component in `browser/`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import UInt8

from regard.errors import InputError
from regard.maps.breakdown import Breakdown
from regard.maps.lookups import READS, Lookups, Patches
from regard.maps.other_map import OtherMap
from regard.maps.words import Words
from regard.pictures.labels import visible
from regard.pictures.packed import BYTES, deflated, packed_map, packed_vectors
from regard.pictures.style import is_dark

FORMAT = 1
LARGEST = 16.0
"""The default maximum size of a page, in megabytes."""
BREAKDOWN_LIMIT = 1_000_000
"""The default maximum of numbers in the breakdown of lookups; each takes as much room as several weights."""


def payload(
    lookups: Sequence[Lookups],
    *,
    title: str = "",
    largest: float = LARGEST,
    breakdown_limit: int = BREAKDOWN_LIMIT,
) -> dict[str, Any]:
    """The payload of `regard.mount(element, payload)` in a browser; see docs/decisions/0030. Lookups whose breakdown
    has more than `breakdown_limit` numbers carry the reason instead.

    Raises InputError if there are no lookups, or if the page would have more than `largest` megabytes."""
    if not lookups:
        raise InputError("there are no lookups to show; give at least one")
    if (
        size := sum(estimate(each, breakdown_limit) for each in lookups) / 1e6
    ) > largest:
        shapes = ", ".join(" x ".join(map(str, each.weights.shape)) for each in lookups)
        raise InputError(
            f"{shapes} weights (layers x heads x target x source) make a page of about {size:.3g} MB; at most "
            f"{largest:g} MB are written, unless largest (--largest) is set higher"
        )
    head, *details = title.split("\n")
    titles = {"title": visible(head)} | (
        {"details": [visible(each) for each in details]} if details else {}
    )
    return {
        "format": FORMAT,
        **titles,
        "lookups": [_lookups(each, breakdown_limit) for each in lookups],
    }


def estimate(lookups: Lookups, breakdown_limit: int = BREAKDOWN_LIMIT) -> int:
    """Roughly the bytes of lookups in a page, rarely an underestimate."""
    maps = lookups.weights.size + sum(
        each.weights.size for each in lookups.others.values()
    )
    sides = [lookups.source, lookups.target, lookups.notes]
    sides += [
        own or ()
        for each in lookups.others.values()
        for own in (each.source, each.target)
    ]
    labels = sum(3 * len(label) + 12 for side in sides for label in side)
    numbers = patches = 0
    if lookups.breakdown is not None and lookups.breakdown.size <= breakdown_limit:
        numbers = lookups.breakdown.size
    if lookups.patches is not None:
        patches = lookups.patches.pixels.size
    if lookups.images is not None:
        patches += lookups.images.size
    return int(BYTES * maps + labels + 2.7 * numbers + 1.4 * patches)


def _lookups(one: Lookups, breakdown_limit: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": visible(one.name),
        "source": [visible(label) for label in one.source],
        "target": [visible(label) for label in one.target],
        "layers": [visible(name) for name in one.layers],
        "heads": one.weights.shape[1],
        "maps": [
            packed_map(visible(one.kind), one.weights, amounts=one.amounts),
            *(_other(*each) for each in one.others.items()),
        ],
    }
    optional = {
        "sourceWords": _words(one.source_words),
        "targetWords": _words(one.target_words),
        "sentences": None if one.sentences is None else list(one.sentences),
        "notes": [visible(note) for note in one.notes] or None,
        "patches": None if one.patches is None else _patches(one.patches),
        "images": None if one.images is None else _images(one.images),
        "first": None if one.first is None else visible(one.first),
        "verbs": None if one.verbs == READS else [visible(verb) for verb in one.verbs],
    }
    if one.breakdown is not None:
        optional |= _breakdown(one.breakdown, breakdown_limit)
    return found | {
        name: value for name, value in optional.items() if value is not None
    }


def _other(name: str, other: OtherMap) -> dict[str, Any]:
    """A map with its own layers and heads, and with its own labels if it has any."""
    found = packed_map(visible(name), other.weights, amounts=other.amounts)
    found |= {
        "layers": [visible(layer) for layer in other.layers],
        "heads": other.weights.shape[1],
    }
    sides = {"source": other.source, "target": other.target, "verbs": other.verbs}
    return found | {
        side: [visible(each) for each in own]
        for side, own in sides.items()
        if own is not None
    }


def _words(words: Words | None) -> dict[str, Any] | None:
    return words and {
        "index": list(words.indices),
        "labels": [visible(label) for label in words.labels],
    }


def _patches(patches: Patches) -> dict[str, Any]:
    height, width, channels = patches.pixels.shape
    return {
        "rows": patches.rows,
        "columns": patches.columns,
        "first": patches.first,
        "dark": is_dark(patches.pixels),
        "height": height,
        "width": width,
        "channels": channels,
        "data": deflated(patches.pixels.tobytes()),
    }


def _images(images: UInt8[np.ndarray, "label height width channel"]) -> dict[str, Any]:
    _, height, width, channels = images.shape
    return {
        "height": height,
        "width": width,
        "channels": channels,
        "data": deflated(images.tobytes()),
    }


def _breakdown(breakdown: Breakdown, breakdown_limit: int) -> dict[str, Any]:
    """The packed breakdown, or the reason why a page has none."""
    if breakdown.size > breakdown_limit:
        return {
            "noBreakdown": f"These lookups have no breakdown: it would take {breakdown.size:,} numbers of scores, "
            f"queries, keys and values; a page has at most {breakdown_limit:,}, unless breakdown_limit (`regard show "
            "--worked`) is set higher."
        }
    numbers, allowed = (
        {**breakdown.of.arrays(), "value": breakdown.value},
        breakdown.allowed,
    )
    return {
        "breakdown": {
            "scale": breakdown.of.scale,
            "softmax": breakdown.softmax,
            "numbers": {name: packed_vectors(each) for name, each in numbers.items()},
            "allowed": None
            if allowed is None
            else deflated(allowed.astype("u1").tobytes()),
        }
    }
