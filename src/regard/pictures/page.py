"""The interactive page: its data, its HTML, and its form in a notebook."""

import json
import re
import zlib
from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np

from regard.errors import InputError
from regard.maps.alignment import Words
from regard.maps.lookups import (
    ATTENDS_TO,
    AlternativeMap,
    Breakdown,
    Lookups,
    mean_alignment,
)
from regard.maps.reductions import shares
from regard.pictures.canvas import (
    COLORS,
    DARK_COLORS,
    heat_colors,
    is_dark,
    palette,
    render,
)
from regard.pictures.heatmap import heatmap, multiples
from regard.pictures.text import flat_title, show_invisible

Json = dict[str, Any]
EXACT = 1 << 14
"""The maximum of weights stored exactly, in float32; larger maps are rounded to 256
levels."""
BYTES = 0.58
"""Bytes of text per rounded weight for rows sampled uniformly from the simplex; those
of models need fewer."""


@cache
def levels(count: int) -> np.ndarray:
    """Return levels from 0 to 1, denser near 0, where most weights of a long row are.

    Nine are squares, (i / 63)^2; the others are evenly spaced up to 1.
    """
    squares = (np.arange(9) / 63) ** 2
    return np.concatenate([squares, np.linspace(squares[-1], 1, count - 8)[1:]])


def pack_map(name: str, weights: np.ndarray, *, amounts: bool = False) -> Json:
    """Pack a map with its name: little-endian float32, or one byte per weight.

    The `levels` are the weights of the bytes. `scale` is the darkest value: 1, or the
    greatest magnitude if that is larger, and for signed maps and amounts.
    """
    sizes = np.abs(weights)
    greatest = float(sizes.max(initial=0.0))
    signed = bool((weights < 0).any())
    scale = 1.0
    if signed or greatest > 1 + 1e-5 or (amounts and greatest > 0):
        scale = greatest
    packed: Json = {"name": name, "scale": scale, "signed": signed}
    if amounts:
        packed["amounts"] = True
    if weights.size <= EXACT:
        packed["levels"] = None
        packed["data"] = deflate(weights.astype("<f4").tobytes())
        return packed
    values = levels(128 if signed else 256)
    codes = np.searchsorted((values[1:] + values[:-1]) / 2, sizes / scale)
    if signed:
        codes = np.where(weights < 0, 127 - codes, codes + 128)
        values = np.r_[-values[::-1], values]
    packed["levels"] = [float(f"{value:.5g}") for value in values * scale]
    packed["data"] = deflate(codes.astype(np.uint8).tobytes())
    return packed


def pack_vectors(vectors: np.ndarray) -> Json:
    """Pack vectors as 16-bit integers times `step`."""
    greatest = float(np.abs(vectors).max(initial=0.0))
    step = greatest / 32767 or 1.0
    return {
        "step": step,
        "width": vectors.shape[-1],
        "data": deflate(np.rint(vectors / step).astype("<i2").tobytes()),
    }


def deflate(content: bytes) -> str:
    """Compress to Base64 of the zlib form.

    zlib searches for runs of equal bytes only, as attention has no other repetitions.
    """
    packer = zlib.compressobj(
        6,
        zlib.DEFLATED,
        15,
        9,
        zlib.Z_RLE,
    )
    return b64encode(packer.compress(content) + packer.flush()).decode()


MAX_MEGABYTES = 16.0
"""The default maximum size of a page, in megabytes."""
BREAKDOWN_LIMIT = 1_000_000
"""The default maximum of numbers in the breakdown of lookups; each takes as much room
as several weights."""
MAX_SOUND = 1 << 20
"""The most bytes of a recording in a page: half a minute at 16 kHz."""


def build_payload(
    lookups: Sequence[Lookups],
    *,
    title: str = "",
    largest: float = MAX_MEGABYTES,
    breakdown_limit: int = BREAKDOWN_LIMIT,
) -> Json:
    """Build the payload of `regard.mount(element, payload)`; see docs/decisions/0030.

    Args:
        lookups: One or more.
        largest: The maximum size, in megabytes.
        breakdown_limit: Lookups whose breakdown has more numbers carry the reason
            instead.

    Raises:
        InputError: There are no lookups, or the page would be too large.
    """
    if not lookups:
        raise InputError("there are no lookups to show; give at least one")
    size = sum(estimate_size(item, breakdown_limit) for item in lookups) / 1e6
    if size > largest:
        raise InputError(
            f"weights of {describe_shapes(lookups)} make a page of about {size:.3g} MB; at most "
            f"{largest:g} MB are written, unless largest (--largest) is set higher"
        )
    head, *details = _show(title.split("\n"))
    packed = [_pack_lookups(item, breakdown_limit) for item in lookups]
    return {"format": 1, "title": head} | _drop_empty(
        {"details": details or None, "lookups": packed}
    )


def describe_shapes(lookups: Sequence[Lookups]) -> str:
    """Return the shapes of the weights of lookups."""
    shapes = [" x ".join(map(str, item.weights.shape)) for item in lookups]
    return f"{', '.join(shapes)} (layers x heads x target x source)"


def estimate_size(lookups: Lookups, breakdown_limit: int = BREAKDOWN_LIMIT) -> int:
    """Estimate the bytes of lookups with short labels in a page."""
    maps = lookups, *lookups.alternatives.values()
    size = BYTES * sum(item.weights.size for item in maps)
    size += 15 * (len(lookups.source) + len(lookups.target))
    breakdown = lookups.breakdown
    if breakdown is not None and breakdown.size <= breakdown_limit:
        size += 2.7 * breakdown.size
    if lookups.patches is not None:
        size += 1.4 * lookups.patches.pixels.size
    if lookups.images is not None:
        size += 1.4 * lookups.images.size
    if lookups.recording is not None:
        size += 1.4 * min(len(lookups.recording.content), MAX_SOUND)
    return int(size)


def _show(labels: Iterable[str]) -> list[str]:
    return [show_invisible(label) for label in labels]


def _drop_empty(optional: Json) -> Json:
    return {name: value for name, value in optional.items() if value is not None}


def _pack_lookups(lookups: Lookups, breakdown_limit: int) -> Json:
    kind = show_invisible(lookups.kind)
    maps = [pack_map(kind, lookups.weights, amounts=lookups.amounts)]
    maps += [_pack_alternative(*item) for item in lookups.alternatives.items()]
    packed = {
        "name": show_invisible(lookups.name),
        "source": _show(lookups.source),
        "target": _show(lookups.target),
        "layers": _show(lookups.layers),
        "heads": lookups.weights.shape[1],
        "maps": maps,
        "sourceWords": _pack_words(lookups.source_words),
        "targetWords": _pack_words(lookups.target_words),
        "sentences": lookups.sentences and list(lookups.sentences),
        "notes": _show(lookups.notes) or None,
        "first": lookups.first and show_invisible(lookups.first),
        "verbs": None if lookups.verbs == ATTENDS_TO else _show(lookups.verbs),
    }
    if (patches := lookups.patches) is not None:
        packed["patches"] = {
            "rows": patches.rows,
            "columns": patches.columns,
            "first": patches.first,
            "dark": is_dark(patches.pixels),
            **_pack_pixels(patches.pixels),
        }
    if lookups.images is not None:
        packed["images"] = _pack_pixels(lookups.images)
    recording = lookups.recording
    if recording is not None and len(recording.content) <= MAX_SOUND:
        content = b64encode(recording.content).decode()
        packed["recording"] = {"seconds": recording.seconds, "data": content}
    if (breakdown := lookups.breakdown) is not None:
        if breakdown.size <= breakdown_limit:
            packed["breakdown"] = _pack_breakdown(breakdown)
        else:
            packed["noBreakdown"] = (
                f"These lookups have no breakdown: it would take {breakdown.size:,} numbers of scores, "
                f"queries, keys and values; a page has at most {breakdown_limit:,}, unless breakdown_limit "
                "(`regard show --worked`) is set higher."
            )
    return _drop_empty(packed)


def _pack_alternative(name: str, extra: AlternativeMap) -> Json:
    """Pack a map with its own layers and heads, and its own labels if it has any."""
    packed = pack_map(show_invisible(name), extra.weights, amounts=extra.amounts)
    packed["layers"] = _show(extra.layers)
    packed["heads"] = extra.weights.shape[1]
    for name in ("source", "target", "verbs"):
        if labels := getattr(extra, name):
            packed[name] = _show(labels)
    return packed


def _pack_words(words: Words | None) -> Json | None:
    return words and {"index": list(words.indices), "labels": _show(words.labels)}


def _pack_pixels(pixels: np.ndarray) -> Json:
    height, width, channels = pixels.shape[-3:]
    return {
        "height": height,
        "width": width,
        "channels": channels,
        "data": deflate(pixels.tobytes()),
    }


def _pack_breakdown(breakdown: Breakdown) -> Json:
    allowed = breakdown.allowed
    return {
        "scale": breakdown.scale,
        "softmax": breakdown.softmax,
        "numbers": {
            name: pack_vectors(array) for name, array in breakdown.arrays().items()
        },
        "allowed": None if allowed is None else deflate(allowed.astype("u1").tobytes()),
    }


VIEWS = ("matrix", "lines", "reading", "document", "image", "images", "heads", "table")
PARTS = ("data", "page", "tokens", *VIEWS, "breakdown", "share", "panel", "mount")
"""The scripts in `browser/`, in the order of their dependencies."""
START = """regard.mount(
  document.getElementById("view"),
  JSON.parse(document.getElementById("data").textContent),
  Object.fromEntries(new URLSearchParams(location.hash.slice(1))),
);
"""
MAX_LABELS = 128
"""The maximum of labels per side in a notebook's picture; larger maps have none."""
HEIGHT = 560
"""The height of the page in a notebook, in pixels."""
FRAME = (
    '<div style="position:relative;min-height:{height}px">{behind}<iframe sandbox="allow-scripts" srcdoc="{page}" '
    'width="100%" height="{height}" title="{title}" style="position:relative;border:0"></iframe></div>'
)
BEHIND = (
    '<img src="data:image/png;base64,{data}" alt="{text}" '
    'style="position:absolute;top:0;left:0;max-width:100%;max-height:{height}px">'
)


class View:
    """An interactive view of lookups, which a notebook displays.

    Args:
        lookups: One or more; two of several can be compared.
        largest: The maximum size of the page, in megabytes.
        breakdown_limit: The maximum of numbers (scores, queries, keys and values) in
            the page for the breakdown of lookups.
        compare: The index of the lookups that are beside the first at the start.
            Default: none.
        view: The first display: matrix, lines, heads or reading. Default: by the
            lookups.
    """

    def __init__(
        self,
        *lookups: Lookups,
        title: str = "",
        largest: float = MAX_MEGABYTES,
        breakdown_limit: int = BREAKDOWN_LIMIT,
        compare: int | None = None,
        view: str | None = None,
    ):
        self.lookups, self.title = lookups, title
        self.choices = {"compare": compare, "view": view}
        self.limits: Any = {"largest": largest, "breakdown_limit": breakdown_limit}

    def page(self) -> str:
        """Return a self-contained page; equal lookups give equal text.

        Every label is inserted as plain text. The content security policy allows only
        this page's own style and script, named by their hashes.

        Raises:
            InputError: The page would be too large.
        """
        data = build_payload(self.lookups, title=self.title, **self.limits)
        data |= {
            name: value for name, value in self.choices.items() if value is not None
        }
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
        for char in "<>&\u2028\u2029":  # which a script element must not contain
            text = text.replace(char, f"\\u{ord(char):04x}")
        style, run = stylesheet(), build_script() + START
        return Template(read_resource("view.html")).substitute(
            title=escape(data["title"] or "Attention"),
            style=style,
            style_hash=policy_hash(style),
            data=text,
            script=run,
            script_hash=policy_hash(run),
        )

    def _repr_mimebundle_(
        self, include: Any = None, exclude: Any = None
    ) -> dict[str, str]:
        """Return the page in a sandboxed frame: its script reaches nothing outside.

        Behind it is a picture, which viewers without frames show (GitHub, untrusted
        notebooks).
        """
        title = flat_title(self.title)
        text = f"{title or 'Attention'}: {describe_shapes(self.lookups)}"
        picture, behind = draw_fallback(self.lookups[0], self.title), ""
        if picture is not None:
            behind = BEHIND.format(data=picture, text=escape(text), height=HEIGHT)
        page = self.page().replace("&", "&amp;").replace('"', "&quot;")
        frame = {"behind": behind, "page": page, "title": escape(title)}
        bundle = {
            "text/plain": text,
            "text/html": FRAME.format(height=HEIGHT, **frame),
            "image/png": picture,
        }
        return _drop_empty(bundle)


def draw_fallback(lookups: Lookups, title: str) -> str | None:
    """Draw the mean of all maps, with amounts as shares of their row, as a .png.

    It has labels if they are readable. The result, in Base64, is None if there is
    nothing to draw or too much, or if matplotlib or a font is missing.
    """
    targets, sources = lookups.weights.shape[2:]
    if not targets or not sources:
        return None
    alignment = mean_alignment(lookups)
    if lookups.amounts:
        alignment = replace(alignment, weights=shares(alignment.weights))
    try:
        if max(targets, sources) <= MAX_LABELS:
            figure = heatmap(alignment, title=title)
        else:
            text = f"{targets} target labels, down, and {sources} source labels, across"
            figure = multiples(alignment.weights[None], (text,), (1,), title=title)
    except InputError:  # the page and the sizes remain
        return None
    return b64encode(render(figure, dpi=100)).decode()


def build_script() -> str:
    """Build the script that defines `regard.mount(element, payload)`.

    It has no comments and no indentation, for smaller pages.
    """
    palettes = [palette(), palette(dark=True), heat_colors()]
    light, dark, heat = ([bytes(color).hex() for color in item] for item in palettes)
    constants = {
        "heat": heat,
        "palettes": {"light": light, "dark": dark},
        "beside": {"light": COLORS, "dark": DARK_COLORS},
        "views": {},
    }
    content = json.dumps(constants, separators=(",", ":"))
    head = f'"use strict";\nconst regard = {content};\n'
    script = head + "".join(read_resource(f"{name}.js") for name in PARTS)
    return re.sub(r"^ *//.*\n|^ +", "", script, flags=re.MULTILINE)


def stylesheet() -> str:
    """Return the style of the component."""
    return read_resource("view.css")


@cache
def read_resource(name: str) -> str:
    """Read a file of the component."""
    return (
        files("regard.pictures").joinpath("browser", name).read_text(encoding="utf-8")
    )


def policy_hash(text: str) -> str:
    """Return the SHA-256 of a text in the form of a content security policy."""
    return b64encode(sha256(text.encode()).digest()).decode()
