"""The interactive view: one HTML file that asks nothing of the network, and what a notebook shows of it."""

import json
from base64 import b64encode
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from regard.maps.lookups import Lookups
from regard.pictures.payload import LARGEST, payload
from regard.pictures.style import palette

SCRIPTS = (
    "data", "page", "tokens", "matrix", "lines", "reading", "document", "image", "heads", "table", "worked", "panel", "mount",
)
"""Files of `browser/`, in the order in which they build on each other."""


class View:
    """Lookups to be looked at: in a notebook as they are, in any browser as a page.

    Args:
        lookups: one or more; of several, two can be seen side by side.
        largest: megabytes that the page may have.
    """

    def __init__(self, *lookups: Lookups, title: str = "", largest: float = LARGEST):
        self.lookups, self.title, self.largest = lookups, title, largest

    def page(self) -> str:
        """A self-contained page; the same lookups give the same text. Every label is text whatever it holds; the
        content security policy lets only this page's own style and script run, named by their hashes. Raises InputError
        where it would be too large."""
        start = (
            'regard.mount(document.getElementById("view"), JSON.parse(document.getElementById("data").textContent));'
        )
        style, run = stylesheet(), script() + start
        shown = payload(self.lookups, title=self.title, largest=self.largest)
        return Template(resource("view.html")).substitute(
            title=escape(shown["title"] or "Attention"),
            style=style,
            style_hash=fingerprint(style),
            data=as_json(shown),
            script=run,
            script_hash=fingerprint(run),
        )


def script() -> str:
    """The component: a script that defines `regard.mount(element, payload)`."""
    colours = {name: [f"{r:02x}{g:02x}{b:02x}" for r, g, b in palette(name == "dark")] for name in ("light", "dark")}
    head = f'"use strict";\nconst regard = {{ palettes: {json.dumps(colours)}, views: {{}} }};\n'
    return head + "".join(resource(f"{name}.js") for name in SCRIPTS)


def stylesheet() -> str:
    """Its style."""
    return resource("view.css")


def as_json(value: Any) -> str:
    """JSON that may stand inside a script element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return (
        text.replace("<", "\\u003c").replace(">", "\\u003e").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    )


@cache
def resource(name: str) -> str:
    """A file of the component."""
    return files("regard.pictures").joinpath("browser", name).read_text(encoding="utf-8")


def fingerprint(text: str) -> str:
    """SHA-256 of a text, as a content security policy names it."""
    return b64encode(sha256(text.encode()).digest()).decode()
