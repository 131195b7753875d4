"""A Sphinx extension: the live pages of the site, one of attention from stored weights, and the lesson of a new model.

`python -m docs.making.live RUN TEXT` stores the weights of a run in `docs/gallery/live.json`.
"""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from sphinx.application import Sphinx
from sphinx.config import Config

import regard
from regard.lesson import build_page, find_texts
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


def lesson() -> str:
    """Train a model, and return its lesson."""
    with TemporaryDirectory() as folder:
        run = regard.train("dates", Path(folder) / "dates")
        return build_page(run, *find_texts(run))


def write(app: Sphinx, config: Config) -> None:
    """Write the pages before Sphinx checks that they are there."""
    folder = Path(app.srcdir) / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "live.html").write_text(page(), encoding="utf-8")
    if not (folder / "live-lesson.html").exists():
        (folder / "live-lesson.html").write_text(lesson(), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect this extension to Sphinx."""
    app.connect("config-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    store(*sys.argv[1:])
