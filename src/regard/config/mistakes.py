"""The messages about keys that a dataclass does not have, and about fields that contradict each other."""

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any

from regard.config.expected import members
from regard.config.yaml_nodes import Node, Problem, join, nearest

FEW = 16
"""The number of keys up to which all are listed beside the nearest one."""


def unknown(key: str, hints: Mapping[str, Any], entries: Mapping[str, Node]) -> str:
    """What is wrong with a key, and which key it could be. `hints` has the types of the mapping's known keys, `entries`
    its values."""
    places = list(dict.fromkeys(_elsewhere(key, hints, entries)))
    if places:
        return f"unknown key; did you mean {' or '.join(map(repr, places))}?"
    advice = nearest(key, list(hints))
    listed = f" The keys are {', '.join(map(repr, hints))}" if advice.startswith("did") and len(hints) <= FEW else ""
    return f"unknown key; {advice}{listed}"


def missing(node: Node, path: str, what: str) -> Problem:
    """The problem of a mapping that lacks a key: where an option sets a key beside it, as another option."""
    beside = any(not entry.line for entry in node.value.values())
    return Problem(f"--set {path}", 0, path, what) if beside and node.line else node.problem(path, what)


def broken_rule(node: Node, path: str, entries: Mapping[str, Node], what: str) -> Problem:
    """The problem with a rule between fields, at the options that set the fields it names; without one, at the line.
    Where it names no key of a section, it is at the options in the section."""
    words = set(re.findall(r"\w+", what))
    every = path and not words & entries.keys()
    named = {join(path, key): entry for key, entry in entries.items() if every or key in words}
    own = [key for key, entry in named.items() if not entry.line] or [
        join(key, inner)
        for key, entry in named.items()
        if isinstance(entry.value, dict)
        for inner, each in entry.value.items()
        if not each.line
    ]
    return Problem(f"--set {' and '.join(own)}", 0, "", what) if own and node.line else node.problem(path, what)


def _elsewhere(key: str, hints: Mapping[str, Any], entries: Mapping[str, Node]) -> Iterator[str]:
    """The paths of the same key in the mappings below, by their types and by what the file has."""
    for name, hint in hints.items():
        for choice in members(hint):
            if dataclasses.is_dataclass(choice) and key in {field.name for field in dataclasses.fields(choice)}:
                yield join(name, key)
    for name, entry in entries.items():
        if name in hints and isinstance(entry.value, dict) and key in entry.value:
            yield join(name, key)
