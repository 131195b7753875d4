"""The Python in README, guide, tasks and mechanisms runs, each page as one session. Pages that draw are run
by the build of the documentation, not here as well. Relative links lead somewhere. Notebooks hold what the pages hold.
"""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from cyclopts import UnknownOptionError

from docs.making.notebooks import PAGES, notebook
from docs.making.pages import blocks, drawn, run
from regard.cli.main import application
from regard.errors import InputError
from regard.runs import run_file
from regard.runs.recipes import names, path_of
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


def test_blocks_are_found_and_unknown_marks_refused(tmp_path: Path):
    text = "a\n\n```python\nx = 1\n```\n\n```python no-run\ny\n```\n\n```sh\nls\n```\n"
    assert blocks(text) == [(3, "", "x = 1\n"), (7, "no-run", "y\n")]
    with pytest.raises(ValueError, match="unknown mark 'slow'"):
        run(tmp_path / "page.md", "```python slow\nx\n```\n", tmp_path)


def test_a_page_that_shows_what_nobody_drew_is_refused(tmp_path: Path):
    page = tmp_path / "page.md"
    shown = "![here](here.png) ![what [CLS] drew](made.png) ![nowhere](lost.png)"
    text = f"{shown}\n\n```python\nopen('made.png', 'w').close()\n```\n"
    (tmp_path / "here.png").touch()
    (tmp_path / "out").mkdir()
    with pytest.raises(ValueError, match=r"shows lost\.png"):
        run(page, text, tmp_path / "out")
    assert drawn(page, text) == ["made.png", "lost.png"]


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


BLOCK = re.compile(r"^```sh\n(?P<lines>.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^(?:[A-Z_]+=(?:\$\([^)]*\)|\S*) +)*regard +(?P<arguments>.*)$", re.MULTILINE)
ELSEWHERE = re.compile(r"(?:[<>|;&]|&&|\|\|)$")
"""What ends a command: its input, its output, or another."""
FOLDER = re.compile(r"data\.train=(\w+)")
"""A setting that names a folder, by which the kind of the data is recognised."""


def commands(text: str) -> Iterator[list[str]]:
    """The arguments of each line of a page's shell blocks that calls the command."""
    for block in BLOCK.finditer(text):
        for found in COMMAND.finditer(block["lines"].replace("\\\n", " ")):
            words = shlex.split(found["arguments"], comments=True)
            yield words[: next((at for at, word in enumerate(words) if ELSEWHERE.match(word)), len(words))]


APP, RECIPES = application(), names()
LINES = [
    pytest.param(arguments, id=f"{path.relative_to(ROOT)}: {' '.join(arguments)[:60]}")
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if "_build" not in path.parts
    for arguments in commands(path.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("arguments", LINES)
def test_the_command_takes_what_a_page_gives_it(arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for found in filter(None, map(FOLDER.fullmatch, arguments)):
        (tmp_path / found[1]).mkdir()
    monkeypatch.chdir(tmp_path)
    command, bound, _ = APP.parse_args(arguments, print_error=False, exit_on_error=False)
    assert command.__name__.rstrip("_") == arguments[0]
    recipe = bound.arguments.get("recipe")
    if recipe in RECIPES:  # then its settings are read as well
        run_file.read(path_of(recipe), list(bound.arguments.get("settings") or ()))


def test_each_command_is_found():
    lines = 'A=$(b 1) regard show x "$(y | z)" \\\n    --beam 5  # c\npython -m a\nregard aer "it\'s" > d\n'
    text = f"a\n\n```sh\n{lines}```\nregard e\n"
    assert [*commands(text)] == [["show", "x", "$(y | z)", "--beam", "5"], ["aer", "it's"]]
    assert len(LINES) > 50


def test_an_option_that_is_no_more_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(UnknownOptionError, match="--bean"):
        test_the_command_takes_what_a_page_gives_it(["predict", "runs/a", "--bean", "5"], tmp_path, monkeypatch)
    with pytest.raises(InputError, match="modle"):
        test_the_command_takes_what_a_page_gives_it(["train", "dates", "--set", "modle.width=8"], tmp_path, monkeypatch)
