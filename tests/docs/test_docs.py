"""The Python in README, guide and mechanisms runs; each page is one session from top to bottom. Pages that draw are run
by the build of the documentation, not here as well. Relative links lead somewhere. Notebooks hold what the pages hold.
"""

import re
from pathlib import Path

import pytest

from docs.making.notebooks import PAGES, notebook
from docs.making.pages import blocks, drawn, run
from tests.code.tree import ROOT

WRITTEN = [*ROOT.glob("*.md"), *(p for p in sorted((ROOT / "docs").rglob("*.md")) if "_build" not in p.parts)]
UNDRAWN = [path for path in (ROOT / "README.md", *PAGES) if not drawn(path, path.read_text(encoding="utf-8"))]
LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)#\s]+)(?:#[^)]*)?\)")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", UNDRAWN, ids=name)
def test_python_blocks_run(path: Path, tmp_path: Path):
    text = path.read_text(encoding="utf-8")
    marked = re.findall(r"^```python(.*)$", text, re.MULTILINE)
    assert run(path, text, tmp_path) == len(marked) - marked.count(" no-run")


def test_blocks_are_found():
    text = "a\n\n```python\nx = 1\n```\n\n```python no-run\ny\n```\n\n```sh\nls\n```\n"
    assert blocks(text) == [(3, "", "x = 1\n"), (7, "no-run", "y\n")]
    assert sum(len(blocks(path.read_text(encoding="utf-8"))) for path in PAGES) > 0


def test_a_page_that_shows_what_nobody_drew_is_refused(tmp_path: Path):
    page = tmp_path / "page.md"
    shown = "![here](here.png) ![what [CLS] drew](made.png) ![nowhere](lost.png)"
    text = f"{shown}\n\n```python\nopen('made.png', 'w').close()\n```\n"
    (tmp_path / "here.png").touch()
    (tmp_path / "out").mkdir()
    with pytest.raises(ValueError, match=r"shows lost\.png"):
        run(page, text, tmp_path / "out")
    assert drawn(page, text) == ["made.png", "lost.png"]


def test_a_block_with_an_unknown_mark_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="unknown mark 'slow'"):
        run(tmp_path / "page.md", "```python slow\nx\n```\n", tmp_path)


@pytest.mark.parametrize("path", WRITTEN, ids=name)
def test_relative_links_exist(path: Path):
    text = path.read_text(encoding="utf-8")
    targets = [m["target"] for m in LINK.finditer(text) if ":" not in m["target"]]
    own = drawn(path, text) if path in PAGES else []
    assert [target for target in targets if target not in own and not (path.parent / target).exists()] == []


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_a_notebook_has_the_code_and_the_headings_of_its_page(path: Path):
    text = path.read_text(encoding="utf-8")
    made = notebook(path)["cells"]
    code = ["".join(cell["source"]) for cell in made if cell["cell_type"] == "code"]
    shown = [source for source in code if source.startswith("from IPython")]
    assert [source for source in code if source not in shown] == [
        block.code.strip("\n") for block in blocks(text) if not block.mark
    ]
    assert len(shown) == len(drawn(path, text))
    assert made[0]["source"][0] == text.splitlines(keepends=True)[0].rstrip("\n") + "\n" * (len(made[0]["source"]) > 1)
