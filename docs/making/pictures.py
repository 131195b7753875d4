"""A Sphinx extension: the code of a page runs when the page is read, and the pictures that it draws stand on it.

No picture that code can draw is kept, so none can be older than the code.
"""

import os
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError

from docs.making.pages import IMAGE, drawn, run

DOTS = 2
"""Of a picture for one of the page, so that it is sharp on any screen."""


def draw(app: Sphinx, page: str, source: list[str]) -> None:
    """Run a page that shows pictures of its own, and leads its links to them."""
    path, text = Path(app.env.doc2path(page)), source[0]
    names = drawn(path, text) if path.suffix == ".md" else []
    if not names:
        return
    folder = app.srcdir / "_build" / "pictures" / page
    folder.mkdir(parents=True, exist_ok=True)
    try:
        run(path, text, folder)
    except Exception as error:
        raise ExtensionError(f"{page}: its code failed: {error!r}", error) from error
    below = os.path.relpath(app.srcdir, path.parent)
    source[0] = IMAGE.sub(
        lambda m: (
            f"![{m['text']}]({below}/_build/pictures/{page}/{m['name']}){{width={width(folder / m['name'])}px}}"
            if m["name"] in names
            else m[0]
        ),
        text,
    )


def width(picture: Path) -> int:
    """On the page, of a png, whose own width its header says in the bytes 16 to 19."""
    return int.from_bytes(picture.read_bytes()[16:20], "big") // DOTS


def outdated(app: Sphinx, env: BuildEnvironment, added: set[str], changed: set[str], removed: set[str]) -> list[str]:
    """Pages that draw, which are read anew in every build."""
    written = ((page, Path(env.doc2path(page))) for page in env.found_docs)
    return [page for page, path in written if path.suffix == ".md" and drawn(path, path.read_text(encoding="utf-8"))]


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect this extension to Sphinx."""
    app.connect("source-read", draw)
    app.connect("env-get-outdated", outdated)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
