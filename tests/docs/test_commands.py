"""The command lines of the pages have valid options: each is parsed, and none is run."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from cyclopts import UnknownOptionError

from regard.cli.main import application
from regard.errors import InputError
from regard.runs import run_file
from regard.runs.recipes import names, path_of
from tests.code.tree import ROOT

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
