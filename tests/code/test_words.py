"""Names are the words of the field: what papers and libraries call a thing, not a dialect of this project."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.code.tree import Module, modules


def listed(text: str) -> set[str]:
    return set(text.split())


DIALECT = listed(
    "tell tells telling told said says ask asks asked asking given wanted demand demanded owed taken taking made look "
    "looks looked looking drawn worked listening"
)
"""Predict, log, request, constraint, sampled, attribute, breakdown, observer: one of the field's words is meant."""
CLASSES = listed(
    "Asked Asking Looking Looked Opening Viewing Telling Reading Given Demand Front Draft Growth Watching Written "
    "Taken Taking Made Opened Named OneOf Filled Said"
)
"""Classes that have other names now: PredictOptions, AttributionOptions, Attribution, BeamState and so on."""
ALLOWED = {
    "show_and_tell": "the title of the paper",
    "ShowAndTell": "the title of the paper",
    "ShowAndTellConfig": "the title of the paper",
    "show_attend_and_tell": "the title of the paper",
    "ShowAttendAndTell": "the title of the paper",
    "ShowAttendAndTellConfig": "the title of the paper",
    "connection_made": "a method of asyncio's protocols",
}
"""A name that stays, and why."""


def words(name: str) -> set[str]:
    """The words of a name, split at underscores and capitals: `drawTold_by` -> draw, told, by."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def defined(node: ast.AST) -> list[str]:
    """The names that one node of a syntax tree defines."""
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
        case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            return [name]
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            return [name]
        case ast.alias(asname=str(name)) | ast.ExceptHandler(name=str(name)):
            return [name]
    return []


def names(module: Module) -> Iterator[tuple[str, str]]:
    """Every name that a module defines, its own first, and the place."""
    yield module.path.parent.name if module.path.name == "__init__.py" else module.path.stem, str(module.path)
    for node in ast.walk(module.tree):
        for name in defined(node):
            yield name, f"{module.path}:{getattr(node, 'lineno', 1)}"


def is_dialect(name: str) -> bool:
    return name not in ALLOWED and (name in CLASSES or bool(words(name) & DIALECT))


@pytest.mark.parametrize("name", modules())
def test_names_are_words_of_the_field(name: str):
    found = [f"{place} {defined}" for defined, place in names(modules()[name]) if is_dialect(defined)]
    assert not found, f"give these the field's word (design notes, CONTRIBUTING.md): {found}"


def test_words_of_a_name():
    assert words("drawTold_by2") == {"draw", "told", "by"}
    assert words("HELD_OUT") == {"held", "out"}
    assert words("HTTPServer") >= {"server"}


def test_every_kind_of_name_is_read():
    code = """
import a as told
class Asked:
    given: int
    def said(self, wanted, *owed, look=1): self.made = taken = [drawn for drawn in ()]
match 1:
    case [asked, *looks]: pass
"""
    tree = ast.parse(code)
    found = [name for node in ast.walk(tree) for name in defined(node) if is_dialect(name)]
    assert sorted(found) == sorted(
        ["told", "Asked", "given", "said", "wanted", "owed", "look", "made", "taken", "drawn", "asked", "looks"]
    )
