"""The messages about keys that a dataclass does not have, and about fields that contradict each other."""

import dataclasses
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from string import ascii_uppercase
from typing import Any, get_args, get_origin, get_type_hints

from regard.config.expected import bare, expected, is_number_for_text, members, shown
from regard.config.recognition import has_tabs, in_words
from regard.config.yaml_nodes import Node, Problem, join, nearest, setting

FEW = 16
"""The number of keys up to which all are listed beside the nearest one."""


def unknown(
    key: str,
    hints: Mapping[str, Any],
    entries: Mapping[str, Node],
    choices: Sequence[Any] = (),
) -> str:
    """What is wrong with a key, and which key it could be. `hints` has the types of the mapping's known keys, `entries`
    its values; `choices` are the dataclasses that the mapping may be."""
    places = list(dict.fromkeys(_elsewhere(key, hints, entries)))
    if places:
        return f"unknown key; did you mean {' or '.join(map(repr, places))}?"
    advice = nearest(key, list(hints))
    listed = (
        f" The keys are {', '.join(map(repr, hints))}"
        if advice.startswith("did") and len(hints) <= FEW
        else ""
    )
    return f"unknown key; {advice}{listed}{'' if advice.startswith('did') else _other_kind(key, choices)}"


def unfit(annotation: Any, node: Node, path: str) -> Problem:
    """The problem with a value of another type; a list that an option sets has the form of the option beside it."""
    form = "" if node.line else _form(annotation, path)
    if (
        not node.line
        and isinstance(node.value, dict)
        and str in map(bare, members(annotation))
    ):
        form = f", as {setting(path, node.text)}"
    if is_number_for_text(annotation, node):
        form = f', in quotation marks: "{node.text}"'
    return node.problem(
        path, f"got {shown(node)}, expected {expected(annotation)}{form}"
    )


def missing(annotation: Any, node: Node, path: str) -> Problem:
    """The problem of a mapping that lacks a key: where an option sets a key beside it, as another option."""
    what = f"missing; expected {expected(annotation)}{_form(annotation, path)}"
    beside = any(not entry.line for entry in node.value.values())
    return (
        Problem(f"--set {path}", 0, path, what)
        if beside and node.line
        else node.problem(path, what)
    )


def _form(annotation: Any, path: str) -> str:
    """The option that sets a list of texts; nothing for another type."""
    for each in members(annotation):
        inner = get_args(each)
        if get_origin(each) in (tuple, list) and str in members(inner[0]):
            texts = (
                "A, B"
                if inner[-1] is Ellipsis
                else ", ".join(ascii_uppercase[: len(inner)])
            )
            return f", as --set '{path}=[{texts}]'"
    return ""


def wrong_files(
    schemas: Sequence[Any], chosen: Any, node: Node, path: str, fits: bool
) -> Problem | None:
    """The problem with an option that names files which do not fit the `chosen` dataclass, or that is a number of
    examples and the name of a file or folder; None without one."""
    if not fits:
        return other_files(schemas, chosen, node, path)
    if (
        isinstance(node.value, bool)
        or not isinstance(node.value, int)
        or not Path(node.text).exists()
    ):
        return None
    hint = get_type_hints(chosen, include_extras=True)[path.rpartition(".")[2]]
    if int not in map(bare, members(hint)):
        return None
    what, named = "folder" if Path(node.text).is_dir() else "file", f"./{node.text}"
    return node.problem(
        path,
        f"got {node.text}, {expected(hint)} of examples, and there is a {what} of this name; expected {named} for the "
        f"{what}, as {setting(path, named)}, or another number",
    )


def other_files(schemas: Sequence[Any], chosen: Any, node: Node, path: str) -> Problem:
    """The problem with an option that names files of a kind that none of the dataclasses of a section reads; `chosen`
    is the one of the run file."""
    files = [
        f"{words}, as --set {shlex.quote(f'{path}={form}')}"
        for words, form in in_words(schemas)
    ]
    if not getattr(chosen, "recognised", ()):
        files.append(
            expected(
                get_type_hints(chosen, include_extras=True)[path.rpartition(".")[2]]
            )
        )
    table = any(words.startswith("a table") for words, _ in in_words(schemas))
    advice = ""
    if table and has_tabs(node.value):
        advice = f"; the lines of {node.value} have tabs, and such a table ends in .tsv: rename it"
    elif isinstance(node.value, str) and not Path(node.value).exists():
        advice = "; there is no such file"
    return node.problem(
        path, f"got {shown(node)}, expected {', or '.join(files)}{advice}"
    )


def broken_rule(
    node: Node, path: str, entries: Mapping[str, Node], what: str
) -> Problem:
    """The problem with a rule between fields, at the options that set the fields it names; without one, at the line.
    Where it names no key of a section, it is at the options in the section."""
    words = set(re.findall(r"\w+", what))
    every = path and not words & entries.keys()
    named = {
        join(path, key): entry
        for key, entry in entries.items()
        if every or key in words
    }
    own = [key for key, entry in named.items() if not entry.line] or [
        join(key, inner)
        for key, entry in named.items()
        if isinstance(entry.value, dict)
        for inner, each in entry.value.items()
        if not each.line
    ]
    if not own or not node.line:
        return node.problem(path, what)
    keys = " and ".join(own)
    return Problem(
        f"--set {keys}", 0, "", what.removeprefix(f"{keys} ") if len(own) > 1 else what
    )


def _other_kind(key: str, choices: Sequence[Any]) -> str:
    """The only other kind of data that has a key, and the files that it reads; nothing without one."""
    hints = [get_type_hints(each) for each in choices if dataclasses.is_dataclass(each)]
    having = [
        (each, found)
        for each, found in zip(choices, hints, strict=False)
        if {key, "kind"} <= found.keys()
    ]
    if len(having) != 1:
        return ""
    schema, found = having[0]
    files = " or ".join(words for words, _ in in_words([schema]))
    return f"; {key!r} is a key of {expected(found['kind'])}{f', the kind that reads {files}' if files else ''}"


def _elsewhere(
    key: str, hints: Mapping[str, Any], entries: Mapping[str, Node]
) -> Iterator[str]:
    """The paths of the same key in the mappings below, by their types and by what the file has."""
    for name, hint in hints.items():
        for choice in members(hint):
            if dataclasses.is_dataclass(choice) and key in {
                field.name for field in dataclasses.fields(choice)
            }:
                yield join(name, key)
    for name, entry in entries.items():
        if name in hints and isinstance(entry.value, dict) and key in entry.value:
            yield join(name, key)
