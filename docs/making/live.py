"""A Sphinx extension: the page of attention on the first page of the site, drawn from stored weights by today's view.

`python -m docs.making.live RUN TEXT` stores the weights of a run in `docs/gallery/live.json`.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from sphinx.application import Sphinx
from sphinx.config import Config

import regard
from regard.maps.lookups import Lookups
from regard.pictures import View

STORED = Path(__file__).resolve().parents[1] / "gallery" / "live.json"
FOLDER = Path("_build") / "live"
"""Where the page is written, below the sources; Sphinx copies what it has to the site."""


def store(run: str, text: str) -> None:
    """Predict a text by a run, and store the weights to three digits with their labels."""
    (found, *_) = regard.load(run).attribute(text).lookups
    weights = [[[[round(float(w), 3) for w in row] for row in head] for head in layer] for layer in found.weights]
    content = {"title": text, "source": found.source, "target": found.target, "weights": weights}
    STORED.write_text(json.dumps(content, ensure_ascii=False) + "\n", encoding="utf-8")


def page() -> str:
    """Return the page of the stored weights."""
    content = json.loads(STORED.read_text(encoding="utf-8"))
    lookups = Lookups(np.array(content["weights"]), tuple(content["source"]), tuple(content["target"]))
    return View(lookups, title=content["title"]).page()


def write(app: Sphinx, config: Config) -> None:
    """Write the page before Sphinx checks that it is there."""
    folder = Path(app.srcdir) / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "live.html").write_text(page(), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect this extension to Sphinx."""
    app.connect("config-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    store(*sys.argv[1:])
