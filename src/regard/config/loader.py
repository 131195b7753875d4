"""Run files as frozen dataclasses: every mistake is reported, with its line."""

import dataclasses
import json
import logging
import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import pydantic

from regard.config import yaml_tree
from regard.config.file_kinds import recognizes
from regard.config.registry import Discriminated
from regard.config.yaml_tree import Node, Problem, join, suggest
from regard.errors import InputError

STRICT = pydantic.ConfigDict(strict=True, arbitrary_types_allowed=True)
FILES_KEY = "train"
"""The key whose value, from an option, lets a dataclass recognize its own data."""
NOTHING = Node(None, "", "", 0)
FAILED = object()
"""The value of a part whose problems are listed already."""
EXPECTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "path_type": "a path",
    "none_required": "null",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "list_type": "a list",
    "tuple_type": "a list",
    "missing": "a longer list",
    "unexpected_positional_argument": "a shorter list",
    "too_short": "a list of at least {min_length}",
    "too_long": "a list of at most {max_length}",
    "greater_than_equal": "a number >= {ge}",
    "greater_than": "a number > {gt}",
    "less_than_equal": "a number <= {le}",
    "less_than": "a number < {lt}",
    "multiple_of": "a multiple of {multiple_of}",
    "literal_error": "{expected}",
    "value_error": "{error}",
}
"""What was expected, by the type of pydantic's error and with its context."""
log = logging.getLogger("regard")


@dataclass(frozen=True)
class Renames:
    """Former names in run files.

    Attributes:
        values: Keys at the top with their former values and the new ones.
        retired: Keys that no longer exist, with the one value that is still accepted.
    """

    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    retired: Mapping[str, Any] = field(default_factory=dict)

    def apply(self, root: Node) -> None:
        """Replace former names in a tree, with a warning for each."""
        for key, names in self.values.items():
            node = root.value.get(key)
            if node is not None and node.text in names:
                name = names[node.text]
                root.value[key] = replace(node, value=name, text=name)
                message = f"{node.text} is now named {name}; change it"
                problem = Problem(node.file, node.line, key, message)
                log.warning("%s", problem)
        for path, value in self.retired.items():
            *parents, key = path.split(".")
            holder = root
            for parent in parents:
                entries = holder.value if isinstance(holder.value, dict) else {}
                holder = entries.get(parent, NOTHING)
            entries = holder.value if isinstance(holder.value, dict) else {}
            if key in entries and entries[key].plain() == value:
                del entries[key]


def load(
    path: Path,
    schema: Any,
    settings: Sequence[str] = (),
    renames: Renames | None = None,
    note: Callable[[str], None] = log.info,
) -> Any:
    """Read a file as the dataclass `schema`, or as one of a union of them.

    The discriminator of a union is the field that is a `Literal` with different
    values in all of its dataclasses (`kind`, `name`), or the key of `Discriminated`.
    Scalars are checked by pydantic without conversion, except that a whole number is
    also a number.

    Args:
        path: A YAML file.
        schema: A dataclass, or a union of dataclasses.
        settings: `key.sub=value` on top of the file; the last one wins.
        renames: Former names that are still read, with a warning.
        note: Takes a line for each mapping of which keys are ignored, because an
            option chose another dataclass than the file.

    Raises:
        InputError: One line for each unknown, missing, repeated or unfitting key.
    """
    root, problems = read_tree(path, settings)
    if renames is not None:
        renames.apply(root)
    builder = Builder(problems)
    value = builder.build(schema, root, "")
    if problems:
        problems.sort(key=lambda item: item.line or 1 << 30)
        raise InputError("\n".join(map(str, problems)))
    for line in builder.notes:
        note(line)
    return value


def read_tree(path: Path, settings: Sequence[str] = ()) -> tuple[Node, list[Problem]]:
    """Return the mapping of a file with settings on top, and problems of its text.

    Raises:
        InputError: There is no mapping.
    """
    root, problems = yaml_tree.read(path)
    if root.value is None and not problems:
        raise InputError(f"{path}: is empty; expected the keys of a run file")
    if not isinstance(root.value, dict):
        text = root.describe()
        raise InputError(f"{path}:{root.line}: got {text} at the top, not a mapping")
    for setting in settings:
        problems += yaml_tree.apply_setting(root, setting)
    return root, problems


class Builder:
    """Makes values from nodes, and collects the problems and notes."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        self.notes: list[str] = []

    def build(self, annotation: Any, node: Node, path: str) -> Any:
        """Return the value of a node for a type, or `FAILED`."""
        choices = list_alternatives(annotation)
        sections = [choice for choice in choices if is_section(choice)]
        if sections and isinstance(node.value, dict):
            return self.build_section(sections, node, path)
        arguments = get_args(strip_annotation(annotation))
        if isinstance(node.value, list) and any(map(is_section, arguments[:1])):
            items = [
                self.build(arguments[0], item, f"{path}[{index}]")
                for index, item in enumerate(node.value)
            ]
            return FAILED if FAILED in items else tuple(items)
        if not sections:
            return self.build_plain(annotation, node, path)
        plain_types = tuple(choice for choice in choices if choice not in sections)
        if plain_types:
            union = Union[plain_types]  # noqa: UP007
            return self.build_plain(
                union,
                node,
                path,
                " or a mapping",
            )
        return self.fail(node, path, f"got {node.describe()}, expected a mapping")

    def fail(self, node: Node, path: str, message: str) -> Any:
        """Report a problem at a node."""
        self.problems.append(
            Problem(
                node.file,
                node.line,
                path,
                message,
            )
        )
        return FAILED

    def build_plain(
        self, annotation: Any, node: Node, path: str, alternative: str = ""
    ) -> Any:
        """Check as JSON: there pydantic's strict rules accept a list as a tuple."""
        adapter = make_adapter(annotation)
        errors: list[Any] = []
        # a number of an option may be meant as text
        for as_text in (False, True)[: 1 if node.line else 2]:
            try:
                value = node.plain(numbers_as_text=as_text)
                return adapter.validate_json(json.dumps(value))
            except pydantic.ValidationError as error:
                errors = errors or error.errors()
        expected = describe_errors(errors) + alternative
        if not node.line and "a list" in expected:
            expected += f", as --set '{path}=[A, B]'"
        elif not node.line and isinstance(node.value, dict) and "text" in expected:
            expected += f"; quote it: {yaml_tree.format_setting(path, node.text)}"
        message = f"got {node.describe()}, expected {expected}"
        index = next(iter(errors[0]["loc"]), None)
        if isinstance(node.value, list) and isinstance(index, int):
            node = replace(node, line=node.value[min(index, len(node.value) - 1)].line)
        return self.fail(node, path, message)

    def build_section(self, sections: list[Any], node: Node, path: str) -> Any:
        """Return the dataclass that a mapping names, with its fields."""
        section, key, node = self.choose(sections, node, path)
        if section is None:
            return FAILED
        hints = get_field_types(section)
        count = len(self.problems)
        entries = self.select_entries(
            section,
            node,
            key,
            path,
        )
        for name, entry in entries.items():
            if name not in hints:
                advice = f"unknown key; {advise_key(name, hints, entries)}"
                self.fail(entry, join(path, name), advice)
        values = {}
        for item in dataclasses.fields(section):
            name = item.name
            place = join(path, name)
            entry = entries.get(name)
            if entry is not None:
                values[name] = self.build(hints[name], entry, place)
                if values[name] is FAILED and name == FILES_KEY and not entry.line:
                    self.advise_kind(sections, entry)
            elif item.default is item.default_factory is MISSING:
                has_options = any(not entry.line for entry in node.value.values())
                if has_options and node.line:
                    node = replace(node, file=f"--set {place}", line=0)
                advice = "missing; set it in the file, or with --set KEY=VALUE"
                self.fail(node, place, advice)
        if len(self.problems) > count:
            return FAILED
        try:
            return section(**values)
        except (ValueError, TypeError) as error:  # a rule between fields
            message = " ".join(str(error).split())
            self.problems.append(
                locate_rule(
                    node,
                    path,
                    entries,
                    message,
                )
            )
            return FAILED

    def choose(
        self, sections: list[Any], node: Node, path: str
    ) -> tuple[Any, str, Node]:
        """Return the dataclass of a mapping, if any, the key that names it, the mapping.

        The mapping gets another name where an option sets data of another kind.
        """
        first = sections[0]
        if not isinstance(first, Discriminated) and len(sections) == 1:
            return first, "", node
        if isinstance(first, Discriminated):
            key = first.key
            names = first.registry
        else:
            key, names = find_discriminator(sections)
            node = switch_kind(node, key, names)
        entry = node.value.get(key)
        if entry is not None and isinstance(entry.value, str) and entry.value in names:
            if isinstance(first, Discriminated):
                return first.choose(entry.value), key, node
            return names[entry.value], key, node
        message = f"expected one of {', '.join(names)}"
        if entry is None:
            self.fail(node, join(path, key), f"missing; {message}")
        else:
            advice = suggest(str(entry.value), list(names))
            message += f"; {advice}" if advice.startswith("did") else ""
            self.fail(entry, join(path, key), f"got {entry.describe()}, {message}")
        return None, key, node

    def select_entries(
        self, section: Any, node: Node, key: str, path: str
    ) -> dict[str, Node]:
        """Return the entries of a mapping.

        Where an option chose another dataclass than the file, keys of the file are left
        out that it lacks, that do not fit it, or that describe the file's own data (its
        `describing`).
        """
        hints = get_field_types(section)
        kind = node.value.get(key)
        if not kind or not kind.replaced or kind.replaced.value == kind.value:
            return node.value
        describing = getattr(section, "describing", ())
        entries = {}
        ignored = []
        for name, entry in node.value.items():
            hint = hints.get(name)
            fits = hint and Builder([]).build(hint, entry, "") is not FAILED
            if not entry.line or (fits and name not in describing):
                entries[name] = entry
            elif name not in describing:
                ignored.append(name)
        if ignored:
            self.notes.append(
                f"{join(path, key)} is {kind.value}, which has no "
                f"{' and no '.join(ignored)}: what {Path(node.file).name} sets there "
                "is ignored"
            )
        return entries

    def advise_kind(self, sections: list[Any], entry: Node) -> None:
        """Name the kinds of data that read files, where an option sets other files."""
        key, names = find_discriminator(sections) if len(sections) > 1 else ("", {})
        kinds = [name for name in names if getattr(names[name], "recognised", ())]
        if not kinds:
            return
        last = self.problems.pop()
        message = f"{last.message}; files are read by {key} {' or '.join(kinds)}"
        if isinstance(entry.value, str) and not Path(entry.value).exists():
            message += f"; there is no such file: {entry.value}"
        self.problems.append(replace(last, message=message))


@cache
def make_adapter(annotation: Any) -> Any:
    """Return pydantic's strict checks of a type."""
    return pydantic.TypeAdapter(annotation, config=STRICT)


@cache
def get_field_types(section: Any) -> dict[str, Any]:
    """Return the annotations of a dataclass's fields."""
    hints = get_type_hints(section, include_extras=True)
    return {item.name: hints[item.name] for item in dataclasses.fields(section)}


def strip_annotation(annotation: Any) -> Any:
    """Return the type inside `Annotated`, or its `Discriminated`."""
    if get_origin(annotation) is not Annotated:
        return annotation
    inner, *notes = get_args(annotation)
    return next((note for note in notes if isinstance(note, Discriminated)), inner)


def list_alternatives(annotation: Any) -> list[Any]:
    """Return the members of a union, or the only type, sections without notes."""
    inner = strip_annotation(annotation)
    if get_origin(inner) not in (Union, types.UnionType):
        return [inner if is_section(inner) else annotation]
    return [choice for item in get_args(inner) for choice in list_alternatives(item)]


def is_section(annotation: Any) -> bool:
    """Return whether a type stands for a mapping with keys of its own."""
    inner = strip_annotation(annotation)
    return is_dataclass(inner) and inner is not Discriminated


def find_discriminator(sections: Sequence[Any]) -> tuple[str, dict[str, Any]]:
    """Return the key that tells dataclasses apart, and the dataclass of each value."""
    for key in get_field_types(sections[0]):
        names: dict[str, Any] = {}
        for section in sections:
            kind = strip_annotation(get_field_types(section).get(key))
            if get_origin(kind) is Literal:
                names |= dict.fromkeys(get_args(kind), section)
        if {*names.values()} == {*sections}:
            return key, names
    listed = ", ".join(section.__name__ for section in sections)
    raise TypeError(f"{listed}: a union without a Literal field of different values")


def switch_kind(node: Node, key: str, names: Mapping[str, Any]) -> Node:
    """Return the mapping with the name of the dataclass that reads its files.

    Only an option switches, and only where the file's own dataclass does not
    recognize the files and another one does.
    """
    entry = node.value.get(key)
    files = node.value.get(FILES_KEY)
    if files is None or files.line or entry is None or not entry.line:
        return node
    section = names.get(entry.value)
    generates = not getattr(section, "recognised", ())
    if section is None or (generates and isinstance(files.value, int)):
        return node
    value = files.plain(numbers_as_text=True)
    kinds = (name for name in (entry.value, *names) if recognizes(names[name], value))
    name = next(kinds, entry.value)
    if name == entry.value:
        return node
    switched = Node(
        name,
        name,
        files.file,
        0,
        entry,
    )
    return replace(node, value=node.value | {key: switched})


def advise_key(key: str, hints: Mapping[str, Any], entries: Mapping[str, Node]) -> str:
    """Return which key an unknown one could be, also one of a section below."""
    paths = []
    for name, hint in hints.items():
        keys = set()
        for choice in list_alternatives(hint):
            if is_section(choice) and not isinstance(choice, Discriminated):
                keys.update(get_field_types(choice))
        if name in entries and isinstance(entries[name].value, dict):
            keys.update(entries[name].value)
        if key in keys:
            paths.append(repr(join(name, key)))
    return f"did you mean {' or '.join(paths)}?" if paths else suggest(key, list(hints))


def locate_rule(
    node: Node, path: str, entries: Mapping[str, Node], message: str
) -> Problem:
    """Return the problem of a rule between fields.

    It is reported at the options that set the fields it names, or any option of the
    section where it names no field; without options at the section's line.
    """
    words = set(re.findall(r"\w+", message))
    names = [name for name in entries if name in words]
    options = []
    for name in names or (entries if path else ()):
        entry = entries[name]
        place = join(path, name)
        if not entry.line:
            options.append(place)
        elif isinstance(entry.value, dict):
            inner = entry.value.items()
            options += [join(place, key) for key, item in inner if not item.line]
    if not options or not node.line:
        return Problem(
            node.file,
            node.line,
            path,
            message,
        )
    options = [option for option in options if option in message] or options
    return Problem(
        f"--set {' and '.join(options)}",
        0,
        "",
        message,
    )


def describe_errors(errors: Sequence[Any]) -> str:
    """Return what pydantic expected, in words."""
    words = []
    for error in errors:
        message = str(error["msg"]).removeprefix("Input should be ")
        text = EXPECTED.get(error["type"], message)
        words.append(text.format(**error.get("ctx", {})).replace("'", ""))
    return " or ".join(dict.fromkeys(words))
