"""The interactive view: a self-contained HTML page that needs no network, and its form in a notebook."""

import json
from base64 import b64encode
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from regard.maps.alignment import Alignment
from regard.maps.lookups import Lookups, mean_alignment
from regard.pictures.labels import flat_title, visible
from regard.pictures.notebook import framed, picture
from regard.pictures.payload import BREAKDOWN_LIMIT, LARGEST, payload
from regard.pictures.style import COLOURS, DARK_COLOURS, heat, palette

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
        breakdown_limit: the maximum of numbers (scores, queries, keys and values) in the page for the breakdown of
            lookups.
        compare: the index of the lookups that are beside the first at the start. Default: none.
    """

    def __init__(
        self,
        *lookups: Lookups,
        title: str = "",
        largest: float = LARGEST,
        breakdown_limit: int = BREAKDOWN_LIMIT,
        compare: int | None = None,
    ):
        self.lookups, self.title, self.largest = lookups, title, largest
        self.breakdown_limit, self.compare = breakdown_limit, compare

    def page(self) -> str:
        """A self-contained page; equal lookups give equal text. Every label is inserted as plain text. The content
        security policy allows only this page's own style and script, named by their hashes. Raises InputError if the
        page would be too large."""
        shown = payload(
            self.lookups,
            title=self.title,
            largest=self.largest,
            breakdown_limit=self.breakdown_limit,
        )
        if self.compare is not None:
            shown["compare"] = self.compare
        style, run = stylesheet(), script() + START
        return Template(resource("view.html")).substitute(
            title=escape(shown["title"] or "Attention"),
            style=style,
            style_hash=fingerprint(style),
            instead="".join(instead(mean_alignment(each)) for each in self.lookups),
            data=as_json(shown),
            script=run,
            script_hash=fingerprint(run),
        )

    def _repr_mimebundle_(
        self, include: Any = None, exclude: Any = None
    ) -> dict[str, str]:
        """For a notebook: the page in a sandboxed frame. Without frames, a picture of the first lookups' mean map, if
        matplotlib and a font are available, or else their sizes."""
        image, text = picture(self.lookups[0], self.title), self._plain()
        bundle = {
            "text/plain": text,
            "text/html": framed(self.page(), self.title, image, text),
        }
        return bundle if image is None else bundle | {"image/png": image.data}

    def _plain(self) -> str:
        sizes = (" x ".join(map(str, each.weights.shape)) for each in self.lookups)
        return f"{flat_title(self.title) or 'Attention'}: {', '.join(sizes)} (layers x heads x target x source)"


def script() -> str:
    """The component: a script that defines `regard.mount(element, payload)`."""
    colours = {
        name: [f"{r:02x}{g:02x}{b:02x}" for r, g, b in palette(name == "dark")]
        for name in ("light", "dark")
    }
    hot = [f"{int(r):02x}{int(g):02x}{int(b):02x}" for r, g, b in heat()]
    constants = {
        "palettes": colours,
        "heat": hot,
        "beside": {"light": COLOURS, "dark": DARK_COLOURS},
    }
    fields = "".join(
        f"{name}: {json.dumps(each, separators=(',', ':'))}, "
        for name, each in constants.items()
    )
    head = f'"use strict";\nconst regard = {{ {fields}views: {{}} }};\n'
    return head + "".join(resource(f"{name}.js") for name in PARTS)


def stylesheet() -> str:
    """The component's style."""
    return resource("view.css")


def instead(alignment: Alignment) -> str:
    """The weights as a table, for browsers without scripts. Large ones list each target's strongest source instead."""
    if alignment.weights.size <= FEW:
        head = "".join(
            f'<th scope="col" dir="auto">{escape(visible(label))}</th>'
            for label in alignment.source
        )
        rows = [[f"{weight:.3f}" for weight in row] for row in alignment.weights]
    else:
        head = '<th scope="col">read most</th>'
        rows = [
            [visible(alignment.source[int(row.argmax())])] for row in alignment.weights
        ]
    lines = "\n".join(
        f'<tr><th scope="row" dir="auto">{escape(visible(label))}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in row)
        + "</tr>"
        for label, row in zip(alignment.target, rows, strict=True)
    )
    return (
        f'<table class="regard-numbers">\n<tr><td></td>{head}</tr>\n{lines}\n</table>\n'
    )


def as_json(value: Any) -> str:
    """JSON that is safe inside a script element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


@cache
def resource(name: str) -> str:
    """The text of a file of the component."""
    return (
        files("regard.pictures").joinpath("browser", name).read_text(encoding="utf-8")
    )


def fingerprint(text: str) -> str:
    """The SHA-256 of a text in the form of a content security policy."""
    return b64encode(sha256(text.encode()).digest()).decode()
