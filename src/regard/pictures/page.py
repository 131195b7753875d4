"""The interactive page: its data, its HTML, and its form in a notebook."""

import io
import json
import zlib
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import UInt8

from regard.errors import InputError
from regard.maps.alignment import Alignment, Words
from regard.maps.breakdown import Breakdown
from regard.maps.lookups import (
    ATTENDS_TO,
    AlternativeMap,
    Lookups,
    Patches,
    mean_alignment,
)
from regard.maps.reductions import shares
from regard.pictures.heatmap import heatmap, multiples
from regard.pictures.style import COLORS, DARK_COLORS, heat_colors, is_dark, palette
from regard.pictures.text import flat_title, show_invisible

EXACT = 1 << 14
"""The maximum of weights stored exactly, in float32; larger maps are rounded to 256
levels."""
NEAR_ZERO = 9
"""The number of levels that are squares, (i / 63)^2. The others are evenly spaced up to
1."""
FINENESS = 1 << 16
BYTES = 0.58
"""Bytes of text per rounded weight for rows sampled uniformly from the simplex; those
of models need fewer."""


@cache
def levels(count: int) -> np.ndarray:
    """`count` levels from 0 to 1, denser near 0, where most weights of a long row are."""
    steps = (np.arange(NEAR_ZERO) / 63) ** 2
    return np.concatenate([steps, np.linspace(steps[-1], 1, count - NEAR_ZERO + 1)[1:]])


@cache
def _nearest(count: int) -> np.ndarray:
    """Return the nearest level for each part of 0 to 1."""
    index = levels(count)
    between = (index[1:] + index[:-1]) / 2
    return np.searchsorted(between, np.linspace(0, 1, FINENESS + 1)).astype(np.uint8)


def pack_map(
    name: str, weights: np.ndarray, *, amounts: bool = False
) -> dict[str, Any]:
    """Pack a map with its name: little-endian float32, or one byte per weight.

    The `levels` are the weights of the bytes. `scale` is the darkest value: 1, or the
    greatest magnitude if that is larger, and for signed maps and amounts.
    """
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
            "data": deflate(weights.astype("<f4").tobytes()),
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
        "data": deflate(codes.tobytes()),
    }


def pack_vectors(vectors: np.ndarray) -> dict[str, Any]:
    """Vectors as 16-bit integers times `step`."""
    step = float(np.abs(vectors).max(initial=0.0)) / 32767 or 1.0
    data = deflate(np.rint(vectors / step).astype("<i2").tobytes())
    return {"step": step, "width": vectors.shape[-1], "data": data}


def deflate(content: bytes) -> str:
    """Base64 of the zlib form. zlib searches for runs of equal bytes only, as attention has no other repetitions."""
    packer = zlib.compressobj(6, zlib.DEFLATED, 15, 9, zlib.Z_RLE)
    return b64encode(packer.compress(content) + packer.flush()).decode()


MAX_LABELS = 128
"""The maximum of labels per side in a picture; larger maps are drawn without labels."""
DOTS = {True: 100, False: 200}
"""Dots per inch of a picture with labels, and of one without."""
HEIGHT = 560
FRAME = (
    '<div style="position:relative;min-height:{height}px">{behind}<iframe sandbox="allow-scripts" srcdoc="{page}" '
    'width="100%" height="{height}" title="{title}" style="position:relative;border:0"></iframe></div>'
)
BEHIND = (
    '<img src="data:image/png;base64,{data}" width="{width}" alt="{text}" '
    'style="position:absolute;top:0;left:0;max-width:100%;max-height:{height}px">'
)


class Picture(NamedTuple):
    """A .png in base64, and its displayed width in pixels."""

    data: str
    width: int


def frame_page(page: str, title: str, picture: Picture | None, text: str) -> str:
    """Put a page into a sandboxed frame: its script runs, but reaches nothing outside.

    Behind it are the picture, if there is one, and its `text`, which viewers without
    frames show (GitHub, untrusted notebooks).
    """
    behind = (
        ""
        if picture is None
        else BEHIND.format(**picture._asdict(), text=escape(text), height=HEIGHT)
    )
    inside = page.replace("&", "&amp;").replace('"', "&quot;")
    return FRAME.format(
        behind=behind, page=inside, title=escape(flat_title(title)), height=HEIGHT
    )


def draw_fallback(lookups: Lookups, title: str) -> Picture | None:
    """Draw the mean of all maps, with amounts as shares of their row.

    It has labels if they are readable; otherwise the scale ends at the greatest weight.
    The result is None if there is nothing to draw or too much, or if matplotlib or a
    font is missing.
    """
    targets, sources = lookups.weights.shape[2:]
    if not targets or not sources:
        return None
    labelled, content = max(targets, sources) <= MAX_LABELS, io.BytesIO()
    alignment = mean_alignment(lookups)
    if lookups.amounts:
        alignment = replace(alignment, weights=shares(alignment.weights))
    try:
        if labelled:
            figure = heatmap(alignment, title=title)
        else:
            text = (
                f"{targets} target labels, down, read {sources} source labels, across"
            )
            figure = multiples(alignment.weights[None], (text,), (1,), title=title)
    except InputError:  # the page and the sizes remain
        return None
    figure.savefig(
        content, format="png", dpi=DOTS[labelled], metadata={"Software": None}
    )
    return Picture(
        b64encode(content.getvalue()).decode(), round(100 * figure.get_size_inches()[0])
    )


FORMAT = 1
MAX_MEGABYTES = 16.0
"""The default maximum size of a page, in megabytes."""
BREAKDOWN_LIMIT = 1_000_000
"""The default maximum of numbers in the breakdown of lookups; each takes as much room
as several weights."""


def build_payload(
    lookups: Sequence[Lookups],
    *,
    title: str = "",
    largest: float = MAX_MEGABYTES,
    breakdown_limit: int = BREAKDOWN_LIMIT,
) -> dict[str, Any]:
    """Build the payload of `regard.mount(element, payload)`; see docs/decisions/0030.

    Args:
        lookups: What is shown.
        title: The title.
        largest: The maximum size, in megabytes.
        breakdown_limit: Lookups whose breakdown has more numbers carry the reason
            instead.

    Raises:
        InputError: There are no lookups, or the page would be too large.
    """
    if not lookups:
        raise InputError("there are no lookups to show; give at least one")
    if (
        size := sum(estimate_size(item, breakdown_limit) for item in lookups) / 1e6
    ) > largest:
        shapes = ", ".join(" x ".join(map(str, item.weights.shape)) for item in lookups)
        raise InputError(
            f"{shapes} weights (layers x heads x target x source) make a page of about {size:.3g} MB; at most "
            f"{largest:g} MB are written, unless largest (--largest) is set higher"
        )
    head, *details = title.split("\n")
    titles = {"title": show_invisible(head)} | (
        {"details": [show_invisible(item) for item in details]} if details else {}
    )
    return {
        "format": FORMAT,
        **titles,
        "lookups": [_lookups(item, breakdown_limit) for item in lookups],
    }


def estimate_size(lookups: Lookups, breakdown_limit: int = BREAKDOWN_LIMIT) -> int:
    """Roughly the bytes of lookups in a page, rarely an underestimate."""
    maps = lookups.weights.size + sum(
        item.weights.size for item in lookups.others.values()
    )
    sides = [lookups.source, lookups.target, lookups.notes]
    sides += [
        extra or ()
        for item in lookups.others.values()
        for extra in (item.source, item.target)
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


def _lookups(lookups: Lookups, breakdown_limit: int) -> dict[str, Any]:
    result: dict[str, Any] = {
        "name": show_invisible(lookups.name),
        "source": [show_invisible(label) for label in lookups.source],
        "target": [show_invisible(label) for label in lookups.target],
        "layers": [show_invisible(name) for name in lookups.layers],
        "heads": lookups.weights.shape[1],
        "maps": [
            pack_map(
                show_invisible(lookups.kind), lookups.weights, amounts=lookups.amounts
            ),
            *(_alternative_map(*item) for item in lookups.others.items()),
        ],
    }
    optional = {
        "sourceWords": _words(lookups.source_words),
        "targetWords": _words(lookups.target_words),
        "sentences": None if lookups.sentences is None else list(lookups.sentences),
        "notes": [show_invisible(note) for note in lookups.notes] or None,
        "patches": None if lookups.patches is None else _patches(lookups.patches),
        "images": None if lookups.images is None else _images(lookups.images),
        "first": None if lookups.first is None else show_invisible(lookups.first),
        "verbs": None
        if lookups.verbs == ATTENDS_TO
        else [show_invisible(verb) for verb in lookups.verbs],
    }
    if lookups.breakdown is not None:
        optional |= _breakdown(lookups.breakdown, breakdown_limit)
    return result | {
        name: value for name, value in optional.items() if value is not None
    }


def _alternative_map(name: str, extra: AlternativeMap) -> dict[str, Any]:
    """Pack a map with its own layers and heads, and its own labels if it has any."""
    result = pack_map(show_invisible(name), extra.weights, amounts=extra.amounts)
    result |= {
        "layers": [show_invisible(layer) for layer in extra.layers],
        "heads": extra.weights.shape[1],
    }
    sides = {"source": extra.source, "target": extra.target, "verbs": extra.verbs}
    return result | {
        side: [show_invisible(label) for label in labels]
        for side, labels in sides.items()
        if labels is not None
    }


def _words(words: Words | None) -> dict[str, Any] | None:
    return words and {
        "index": list(words.indices),
        "labels": [show_invisible(label) for label in words.labels],
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
        "data": deflate(patches.pixels.tobytes()),
    }


def _images(images: UInt8[np.ndarray, "label height width channel"]) -> dict[str, Any]:
    _, height, width, channels = images.shape
    return {
        "height": height,
        "width": width,
        "channels": channels,
        "data": deflate(images.tobytes()),
    }


def _breakdown(breakdown: Breakdown, breakdown_limit: int) -> dict[str, Any]:
    """Pack a breakdown, or return the reason why a page has none."""
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
            "numbers": {name: pack_vectors(array) for name, array in numbers.items()},
            "allowed": None
            if allowed is None
            else deflate(allowed.astype("u1").tobytes()),
        }
    }


VIEWS = ("matrix", "lines", "reading", "document", "image", "images", "heads", "table")
PARTS = ("data", "page", "tokens", *VIEWS, "breakdown", "panel", "mount")
"""The scripts in `browser/`, in the order of their dependencies."""
START = """regard.mount(
  document.getElementById("view"),
  JSON.parse(document.getElementById("data").textContent),
  Object.fromEntries(new URLSearchParams(location.hash.slice(1))),
);
"""
FEW = 2_500
"""The maximum of weights in the table for browsers without scripts."""


class View:
    """An interactive view of lookups: a notebook displays it, and `page` gives it as an HTML page.

    Args:
        lookups: one or more; two of several can be compared.
        largest: the maximum size of the page, in megabytes.
        breakdown_limit: the maximum of numbers (scores, queries, keys and values) in
        the page for the breakdown of
            lookups.
        compare: the index of the lookups that are beside the first at the start.
        Default: none.
    """

    def __init__(
        self,
        *lookups: Lookups,
        title: str = "",
        largest: float = MAX_MEGABYTES,
        breakdown_limit: int = BREAKDOWN_LIMIT,
        compare: int | None = None,
    ):
        self.lookups, self.title, self.largest = lookups, title, largest
        self.breakdown_limit, self.compare = breakdown_limit, compare

    def page(self) -> str:
        """Return a self-contained page; equal lookups give equal text.

        Every label is inserted as plain text. The content security policy allows only
        this
        page's own style and script, named by their hashes.

        Raises:
            InputError: The page would be too large.
        """
        data = build_payload(
            self.lookups,
            title=self.title,
            largest=self.largest,
            breakdown_limit=self.breakdown_limit,
        )
        if self.compare is not None:
            data["compare"] = self.compare
        style, run = stylesheet(), build_script() + START
        return Template(read_resource("view.html")).substitute(
            title=escape(data["title"] or "Attention"),
            style=style,
            style_hash=fingerprint(style),
            instead="".join(
                table_without_scripts(mean_alignment(lookups))
                for lookups in self.lookups
            ),
            data=to_script_json(data),
            script=run,
            script_hash=fingerprint(run),
        )

    def _repr_mimebundle_(
        self, include: Any = None, exclude: Any = None
    ) -> dict[str, str]:
        """Return the page in a sandboxed frame, for a notebook.

        Without frames, a picture of the first lookups' mean map is shown, or their
        sizes if
        matplotlib or a font is missing.
        """
        image, text = draw_fallback(self.lookups[0], self.title), self._plain()
        bundle = {
            "text/plain": text,
            "text/html": frame_page(self.page(), self.title, image, text),
        }
        return bundle if image is None else bundle | {"image/png": image.data}

    def _plain(self) -> str:
        sizes = (
            " x ".join(map(str, lookups.weights.shape)) for lookups in self.lookups
        )
        return f"{flat_title(self.title) or 'Attention'}: {', '.join(sizes)} (layers x heads x target x source)"


def build_script() -> str:
    """Build the script that defines `regard.mount(element, payload)`."""
    colours = {
        name: [f"{r:02x}{g:02x}{b:02x}" for r, g, b in palette(name == "dark")]
        for name in ("light", "dark")
    }
    hot = [f"{int(r):02x}{int(g):02x}{int(b):02x}" for r, g, b in heat_colors()]
    constants = {
        "palettes": colours,
        "heat": hot,
        "beside": {"light": COLORS, "dark": DARK_COLORS},
    }
    fields = "".join(
        f"{name}: {json.dumps(value, separators=(',', ':'))}, "
        for name, value in constants.items()
    )
    head = f'"use strict";\nconst regard = {{ {fields}views: {{}} }};\n'
    return head + "".join(read_resource(f"{name}.js") for name in PARTS)


def stylesheet() -> str:
    """Return the style of the component."""
    return read_resource("view.css")


def table_without_scripts(alignment: Alignment) -> str:
    """Return the weights as a table, for browsers without scripts.

    Large ones list the strongest source of each target instead.
    """
    if alignment.weights.size <= FEW:
        head = "".join(
            f'<th scope="col" dir="auto">{escape(show_invisible(label))}</th>'
            for label in alignment.source
        )
        rows = [[f"{weight:.3f}" for weight in row] for row in alignment.weights]
    else:
        head = '<th scope="col">attends most to</th>'
        rows = [
            [show_invisible(alignment.source[int(row.argmax())])]
            for row in alignment.weights
        ]
    lines = "\n".join(
        f'<tr><th scope="row" dir="auto">{escape(show_invisible(label))}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in row)
        + "</tr>"
        for label, row in zip(alignment.target, rows, strict=True)
    )
    return (
        f'<table class="regard-numbers">\n<tr><td></td>{head}</tr>\n{lines}\n</table>\n'
    )


def to_script_json(value: Any) -> str:
    """JSON that is safe inside a script element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


@cache
def read_resource(name: str) -> str:
    """Read a file of the component."""
    return (
        files("regard.pictures").joinpath("browser", name).read_text(encoding="utf-8")
    )


def fingerprint(text: str) -> str:
    """Return the SHA-256 of a text in the form of a content security policy."""
    return b64encode(sha256(text.encode()).digest()).decode()
