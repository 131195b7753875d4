"""A task is a room: shared code names no task, and a room enters another only for a reason listed here."""

import ast
from collections.abc import Iterator

import pytest

from regard.tasks.catalog import TASKS
from tests.code.tree import Module, imported, imports, modules

ROOMS = {place.partition(":")[0]: name for name, place in TASKS.places.items()}
"""Each task's name by that of its package."""
PREFIX = "regard.tasks."
SHARED = ("cli", "serve", "runs", "hub", "experiments")
"""Packages that know no task."""
OUTSIDE = {
    ("regard.runs.interface", "custom"): "`fit` writes the run file of a user's own model, which no YAML describes"
}
"""Modules outside of every room that enter one, and why."""
DOORS = {
    ("multi_target", "seq2seq"): "a run of several languages is a run of that task for each",
    ("regression", "classification"): "the texts, forms and runs of classes, with another meaning of the outputs",
    ("multi_label", "classification"): "the texts, forms and runs of classes, with another meaning of the outputs",
}
"""Rooms that enter another, and why."""
NAMES = {
    "regard.runs.run_file": "older run files have former names of tasks, with those that replace them",
    "regard.hub.formats.settings": "a published problem_type has the name of a task",
}
"""Modules of `SHARED` in which names of tasks stand, and why."""


def rooms(module: Module) -> Iterator[tuple[str, str]]:
    """The rooms that a module imports from or names modules of in strings, each with the place."""
    for node in imports(module.tree):
        for name in imported(node, set(modules())):
            if room := room_of(name):
                yield room, module.place(node)
    for text, place in strings(module):
        if room := room_of(text):
            yield room, place


def room_of(name: str) -> str | None:
    """The room that a dotted name leads into."""
    room = name.removeprefix(PREFIX).partition(".")[0]
    return room if name.startswith(PREFIX) and room in ROOMS else None


def strings(module: Module) -> Iterator[tuple[str, str]]:
    """Every text of a module with its place, docstrings aside."""
    documentation = {id(node.value) for node in ast.walk(module.tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.value, module.place(node)


def shared() -> list[Module]:
    return [each for each in modules().values() if each.name.startswith(tuple(f"regard.{name}" for name in SHARED))]


def test_the_rooms_are_the_folders_of_tasks():
    folders = {
        each.package.removeprefix(PREFIX).partition(".")[0]
        for each in modules().values()
        if each.package.startswith(PREFIX)
    }
    assert folders == set(ROOMS)


@pytest.mark.parametrize("module", shared(), ids=lambda each: each.name)
def test_shared_packages_know_no_task(module: Module):
    names = {f"{text!r} at {place}" for text, place in strings(module) if text in TASKS}
    assert not names or module.name in NAMES


def test_rooms_are_entered_by_those_named_here():
    outside, doors = {}, {}
    for module in modules().values():
        own = room_of(module.name)
        for room, place in rooms(module):
            if own is None:
                outside.setdefault((module.name, room), place)
            elif own != room:
                doors.setdefault((own, room), place)
    assert {key: place for key, place in outside.items() if key not in OUTSIDE} == {}
    assert {key: place for key, place in doors.items() if key not in DOORS} == {}
    assert (set(OUTSIDE), set(DOORS)) == (set(outside), set(doors))


def test_reasons_are_needed():
    named = {each.name for each in shared() if any(text in TASKS for text, _ in strings(each))}
    assert named == set(NAMES)
