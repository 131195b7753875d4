"""Notebooks of the pages of guide, tasks and mechanisms: `python -m docs.making.notebooks FOLDER [PAGE...]`.

A page's text becomes cells of Markdown, its Python blocks cells of code; a picture that code draws is shown by code.
Each notebook is run, and has its outputs. Pages are named as `guide/first-training`; without any all are written.
"""

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from docs.making.pages import BLOCK, IMAGE, drawn

DOCS = Path(__file__).resolve().parents[1]
FOLDERS = ("guide", "tasks", "mechanisms")
PAGES = sorted([*(path for folder in FOLDERS for path in (DOCS / folder).glob("*.md")), DOCS / "notes.md"])
LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<target>[^):#\s]+)\.md(?P<part>#[^)]*)?\)")
UNSHOWN = "ignore:IProgress not found"
"""The warning of tqdm where a kernel has no ipywidgets; training then writes lines."""
DIRECTIVE = re.compile(r"^```\{.*?^```\n?", re.MULTILINE | re.DOTALL)


def notebook(path: Path) -> dict[str, Any]:
    """Return a page in the format 4.5 of Jupyter's notebooks, without outputs."""
    parts = [(kind, source.strip("\n")) for kind, source in cells(path)]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {
        "cells": [cell(kind, source, number) for number, (kind, source) in enumerate(parts) if source],
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def cells(path: Path) -> Iterator[tuple[str, str]]:
    """Kind and source of what stands on a page, in its order; a block that cannot run by itself stays text."""
    text = DIRECTIVE.sub("", path.read_text(encoding="utf-8"))
    own, end = drawn(path, text), 0
    early: list[tuple[str, str]] | None = []  # pictures above the first block, which draws them
    for block in BLOCK.finditer(text):
        if block["mark"].strip() == "no-run":
            continue
        for kind, source in words(path, text[end : block.start()], own):
            if kind == "code" and early is not None:
                early.append((kind, source))
            else:
                yield kind, source
        yield "code", block["code"]
        yield from early or ()
        early, end = None, block.end()
    yield from words(path, text[end:], own)


def words(path: Path, text: str, own: list[str]) -> Iterator[tuple[str, str]]:
    """Text without code, in which pictures of the page's `own` are shown by code."""
    end = 0
    for image in IMAGE.finditer(text):
        if image["name"] in own:
            yield "markdown", linked(path, text[end : image.start()])
            shown = f"from IPython.display import Image\n\nImage({image['name']!r}, retina=True, alt={image['text']!r})"
            yield "code", shown
            end = image.end()
    yield "markdown", linked(path, text[end:])


def linked(path: Path, text: str) -> str:
    """Links to pages that are notebooks too lead to these."""

    def other(link: re.Match[str]) -> str:
        known = (path.parent / f"{link['target']}.md").resolve() in PAGES
        return f"[{link['text']}]({link['target']}.{'ipynb' if known else 'md'}{link['part'] or ''})"

    return LINK.sub(other, text)


def cell(kind: str, source: str, number: int) -> dict[str, Any]:
    """One cell; its id is its place."""
    found = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": source.splitlines(keepends=True)}
    return found | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def executed(made: dict[str, Any]) -> dict[str, Any]:
    """Return a notebook with its outputs, run from its first cell to its last in a kernel and a folder of its own.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell fails.
    """
    import nbformat
    from nbclient import NotebookClient

    paths = os.pathsep.join([str(DOCS.parent / "src"), str(DOCS.parent)])
    with tempfile.TemporaryDirectory() as folder:
        own = {"PYTHONPATH": paths, "IPYTHONDIR": f"{folder}/ipython", "JUPYTER_RUNTIME_DIR": folder}
        own |= {"PYTHONWARNINGS": UNSHOWN}
        given = nbformat.reads(json.dumps(made), as_version=4)
        client = NotebookClient(given, timeout=600, resources={"metadata": {"path": folder}})
        return json.loads(nbformat.writes(client.execute(env={**os.environ, **own})))


def main(folder: Path, names: Sequence[str]) -> None:
    """Write the notebooks of the pages into a folder, which is made."""
    pages = [path for path in PAGES if not names or str(path.relative_to(DOCS).with_suffix("")) in names]
    for path in pages:
        place = (folder / path.relative_to(DOCS)).with_suffix(".ipynb")
        place.parent.mkdir(parents=True, exist_ok=True)
        content = json.dumps(executed(notebook(path)), indent=1, ensure_ascii=False)
        place.write_text(content + "\n", encoding="utf-8")
    print(f"{len(pages)} notebooks with their outputs in {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
