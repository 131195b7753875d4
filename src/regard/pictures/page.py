"""The alignment matrix as one HTML file that asks nothing of the network."""

from base64 import b64encode
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template

from regard.maps.alignment import Alignment
from regard.pictures.labels import columns, visible
from regard.pictures.style import SHADES, shade_classes, shade_of

SHORT = 3


def page(alignment: Alignment, *, title: str = "") -> str:
    """A self-contained page: a table of cells shaded by weight, 0 to 1 on every page, read out on hover and by keys.

    Every label is text whatever it holds; the content security policy lets only this page's own style and script run,
    named by their hashes. Without JavaScript, hovering still shows source, target and weight. Needs no matplotlib.
    """
    source, target = ([visible(label) for label in side] for side in (alignment.source, alignment.target))
    turned = max(map(columns, source), default=0) > SHORT
    small = max(alignment.weights.shape) > 40
    style, script = _style("18px" if small else "26px"), resource("page.js")
    return Template(resource("page.html")).substitute(
        title=escape(visible(title) or "Alignment"),
        style=style,
        style_hash=fingerprint(style),
        script=script,
        script_hash=fingerprint(script),
        kind=" ".join(name for name, on in (("turned", turned), ("small", small)) if on),
        size=f"{len(source)} source × {len(target)} target pieces; source along the top, target down the side",
        scale="".join(f'<i class="w{shade}"></i>' for shade in range(0, SHADES + 1, 10)),
        source="".join(_head("col", label, _direction(label) if turned else "") for label in source),
        rows="\n".join(_row(alignment, t, source, label) for t, label in enumerate(target)),
    )


def _row(alignment: Alignment, t: int, source: list[str], target: str) -> str:
    cells = (_cell(float(weight), s, target) for weight, s in zip(alignment.weights[t], source, strict=True))
    return f"<tr>{_head('row', target, '')}{''.join(cells)}</tr>"


def _cell(weight: float, source: str, target: str) -> str:
    # The isolates keep a right-to-left label from reordering the rest of the line.
    read = f"\u2068{source}\u2069 → \u2068{target}\u2069   {weight:.3f}"
    return f'<td class="{shade_of(weight)}" data-read="{escape(read)}">{weight:.3f}</td>'


def _head(scope: str, label: str, direction: str) -> str:
    return f'<th scope="{scope}"><span dir="auto"{direction}>{escape(label)}</span></th>'


def _direction(label: str) -> str:
    """A turned label reads upwards, unless its characters stand upright one below the other, as Chinese ones do."""
    return "" if columns(label) > len(label) else ' class="up"'


def _style(cell: str) -> str:
    return Template(resource("page.css")).substitute(cellpx=cell) + shade_classes()


@cache
def resource(name: str) -> str:
    """A file of this package."""
    return files("regard.pictures").joinpath(name).read_text(encoding="utf-8")


def fingerprint(text: str) -> str:
    """SHA-256 of a text, as a content security policy names it."""
    return b64encode(sha256(text.encode()).digest()).decode()
