"""A task is a room, a package or a file: shared code names no task; a room enters another only as listed here."""

import ast
import re
from collections.abc import Iterator

from regard.tasks.catalog import TASKS
from tests.code.tree import Module, imported, imports, modules

ROOMS = {re.split("[.:]", place)[0]: name for name, place in TASKS.locations.items()}
"""Each task's name by that of its package."""
PREFIX = "regard.tasks."
SHARED = ("cli", "serve", "runs", "hub", "experiments")
"""Packages that know no task."""
OUTSIDE = {
    ("regard.hub.any_model", "language_model"): "a prompt is continued as in that task",
    ("regard.runs.train", "seq2seq"): "a published model of pairs starts that task and no other",
    ("regard.runs.interface", "custom"): "`fit` writes the run file of a user's own model, which no YAML describes",
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
    "regard.hub.importing": "a published problem_type has the name of a task",
    "regard.hub.exporting": "a run of a task becomes the published class of that task",
    "regard.hub.families.bert": "each task of the family has a published class and its weights",
    "regard.hub.families.weights": "each task of a classifier has one published class",
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
    documentation = {id(node.value) for node in module.nodes if isinstance(node, ast.Expr)}
    for node in module.nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.value, module.place(node)


def shared() -> list[Module]:
    return [each for each in modules().values() if each.name.startswith(tuple(f"regard.{name}" for name in SHARED))]


def test_the_packages_of_tasks_are_rooms():
    folders = {
        module.package.removeprefix(PREFIX).partition(".")[0]
        for module in modules().values()
        if module.package.startswith(PREFIX)
    }
    assert folders <= set(ROOMS)
    assert {room for room in ROOMS if PREFIX + room in modules()} == set(ROOMS)


def test_shared_packages_know_no_task():
    names = {f"{text!r} at {place}" for module in shared() for text, place in strings(module) if text in TASKS}
    assert not {name for name in names if not any(f"{file.replace('.', '/')}.py" in name for file in NAMES)}


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
