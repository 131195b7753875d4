"""Notebooks as Jupyter runs them, in a kernel of their own."""

import json
from pathlib import Path
from typing import Any

import pytest

from docs.making.notebooks import DOCS, PAGES, cell, executed, notebook

nbformat = pytest.importorskip(
    "nbformat", reason="nbclient is not installed: pip install -c constraints.txt -e '.[test]'"
)
PAGE = DOCS / "mechanisms" / "sparsemax.md"
VIEW = """\
from regard.maps.lookups import Lookups
from regard.pictures import View

View(Lookups(sparsemax(scores)[None, None, :3].numpy(), tuple("abcdefg"), tuple("xyz")), title="<b>")"""


def read(made: dict[str, Any]) -> Any:
    """As from a file."""
    return nbformat.reads(json.dumps(made), as_version=4)


@pytest.mark.slow
def test_a_notebook_of_a_page_runs_and_a_view_shows_itself():
    """From its first cell to its last; what is drawn is there, and a view is a frame, a picture and a text."""
    pytest.importorskip("ipykernel")
    pytest.importorskip("nbclient")
    given = notebook(PAGE)
    assert given["cells"][-1]["cell_type"] == "markdown"
    given["cells"].append(cell("code", VIEW, 999))
    made = read(executed(given))
    nbformat.validate(made)
    _, shown, seen = [each["outputs"] for each in made["cells"] if each["cell_type"] == "code"]
    ((drawn,), (view,)) = shown, seen
    assert drawn["metadata"]["image/png"]["alt"].startswith("Softmax bends")
    assert drawn["data"]["image/png"]
    assert view["data"]["text/plain"] == "<b>: 1 x 1 x 3 x 7 (layers x heads x target x source)"
    assert view["data"]["image/png"] in view["data"]["text/html"]
    assert '<iframe sandbox="allow-scripts"' in view["data"]["text/html"]


@pytest.mark.slow
def test_a_notebook_trains_on_a_file_and_keeps_its_outputs():
    pytest.importorskip("ipykernel")
    pytest.importorskip("nbclient")
    made = executed(notebook(DOCS / "guide" / "first-training.md"))
    outputs = [each["outputs"] for each in made["cells"] if each["cell_type"] == "code"]
    assert "ClassPrediction bad" in str(outputs[2])
    assert "ClassPrediction good" in str(outputs[2])
    assert "<iframe" in str(outputs[3])
    assert "IProgress" not in str(outputs)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_notebook_is_one(path: Path):
    made = read(notebook(path))
    assert list(nbformat.validator.iter_validate(made)) == []
    assert len({each["id"] for each in made["cells"]}) == len(made["cells"]) > 0
