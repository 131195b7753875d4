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
    """Former names in run files and those that replace them."""

    keys: Mapping[str, str] = field(default_factory=dict)
    """Keys with the sections above them, such as `model.width`, and their new name."""
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Keys at the top with their former values and the new ones."""

    def apply(self, root: Node) -> None:
        """Replace former names in a tree, with a warning for each."""
        for path, name in self.keys.items():
            *parents, key = path.split(".")
            holder: Any = root
            for parent in parents:
                is_mapping = isinstance(holder, Node) and isinstance(holder.value, dict)
                holder = holder.value.get(parent) if is_mapping else None
            if holder is None or not isinstance(holder.value, dict):
                continue
            if key in holder.value and name not in holder.value:
                node = holder.value[name] = holder.value.pop(key)
                self._warn(node, f"the key {path}", name)
        for key, names in self.values.items():
            node = root.value.get(key)
            if node is not None and isinstance(node.value, str) and node.value in names:
                name = names[node.value]
                root.value[key] = replace(node, value=name, text=name)
                self._warn(node, f"{key} {node.value}", name)

    def _warn(self, node: Node, former: str, name: str) -> None:
        location = f"{node.file}:{node.line}" if node.line else node.file
        log.warning("%s: %s is now named %s; change it", location, former, name)


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
    Where a dataclass has `named_sizes`, the key `size` sets several of its fields.
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
    if builder.problems:
        in_order = sorted(builder.problems, key=lambda item: item.line or 1 << 30)
        raise InputError("\n".join(map(str, in_order)))
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
        what = root.describe()
        raise InputError(f"{path}:{root.line}: got {what} at the top, not a mapping")
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
        if isinstance(node.value, list) and arguments and is_section(arguments[0]):
            return self.build_list(annotation, node, path)
        if not sections:
            return self.build_plain(annotation, node, path)
        plain_types = tuple(choice for choice in choices if not is_section(choice))
        if not plain_types:
            return self.fail(node, path, f"got {node.describe()}, expected a mapping")
        union = Union[plain_types]  # noqa: UP007
        return self.build_plain(union, node, path, " or a mapping")

    def build_plain(
        self, annotation: Any, node: Node, path: str, alternative: str = ""
    ) -> Any:
        """Check as JSON: there pydantic's strict rules accept a list as a tuple."""
        adapter = make_adapter(annotation)
        try:
            return adapter.validate_json(json.dumps(node.plain()))
        except pydantic.ValidationError as error:
            failure = error
        if not node.line:  # a number of an option where text is expected
            try:
                as_text = json.dumps(node.plain(numbers_as_text=True))
                return adapter.validate_json(as_text)
            except pydantic.ValidationError:
                pass
        errors = failure.errors()
        expected = describe_errors(errors) + alternative
        if not node.line and "a list" in expected:
            expected += f", as --set '{path}=[A, B]'"
        elif not node.line and isinstance(node.value, dict) and "text" in expected:
            expected += f"; quote it: {yaml_tree.format_setting(path, node.text)}"
        message = f"got {node.describe()}, expected {expected}"
        line = find_line(node, errors[0]["loc"])
        self.problems.append(Problem(node.file, line, path, message))
        return FAILED

    def build_list(self, annotation: Any, node: Node, path: str) -> Any:
        """Return a tuple or list of dataclasses; the type's length is not checked."""
        inner = get_args(strip_annotation(annotation))[0]
        items = []
        for index, item in enumerate(node.value):
            items.append(self.build(inner, item, f"{path}[{index}]"))
        if FAILED in items:
            return FAILED
        is_list = get_origin(strip_annotation(annotation)) is list
        return items if is_list else tuple(items)

    def build_section(self, sections: list[Any], node: Node, path: str) -> Any:
        """Return the dataclass that a mapping names, with its fields."""
        section, node = self.choose(sections, node, path)
        if section is None:
            return FAILED
        node = self.drop_ignored(section, node, path)
        entries = self.expand_size(section, node, path)
        hints = get_field_types(section)
        before = len(self.problems)
        for key, entry in entries.items():
            if key not in hints:
                message = f"unknown key; {advise_key(key, hints, entries)}"
                self.problems.append(entry.problem(join(path, key), message))
        values = {}
        for item in dataclasses.fields(section):
            inner_path = join(path, item.name)
            if item.name in entries:
                entry = entries[item.name]
                values[item.name] = self.build(hints[item.name], entry, inner_path)
                if values[item.name] is FAILED and item.name == FILES_KEY:
                    self.advise_kind(sections, entry)
            elif item.init and item.default is item.default_factory is MISSING:
                self.problems.append(report_missing(node, inner_path))
        if len(self.problems) > before:
            return FAILED
        try:
            return section(**values)
        except (ValueError, TypeError) as error:  # a rule between fields
            message = " ".join(str(error).split())
            self.problems.append(report_rule(node, path, entries, message))
            return FAILED

    def choose(self, sections: list[Any], node: Node, path: str) -> tuple[Any, Node]:
        """Return the only dataclass, or the one that the mapping names, or None.

        The mapping gets another name where an option sets data of another kind.
        """
        if not isinstance(sections[0], Discriminated) and len(sections) == 1:
            return sections[0], node
        if isinstance(sections[0], Discriminated):
            key, names = sections[0].key, sections[0].registry
        else:
            key, names = find_discriminator(sections)
            node = switch_kind(node, key, names)
        listed = ", ".join(names)
        entry = node.value.get(key)
        if entry is None:
            message = f"missing; expected one of {listed}"
            self.problems.append(node.problem(join(path, key), message))
            return None, node
        if not isinstance(entry.value, str) or entry.value not in names:
            message = f"got {entry.describe()}, expected one of {listed}"
            if isinstance(entry.value, str):
                advice = suggest(entry.value, list(names))
                message += f"; {advice}" if advice.startswith("did") else ""
            self.problems.append(entry.problem(join(path, key), message))
            return None, node
        if isinstance(sections[0], Discriminated):
            return sections[0].choose(entry.value), node
        return names[entry.value], node

    def drop_ignored(self, section: Any, node: Node, path: str) -> Node:
        """Leave out keys of the file where an option chose another dataclass.

        These are keys that it lacks, that do not fit it, or that describe the file's
        own data (its `describing`).
        """
        hints = get_field_types(section)
        option = find_switch(hints, node)
        if option is None:
            return node
        entries, ignored = {}, []
        for key, entry in node.value.items():
            if not entry.line:
                entries[key] = entry
            elif key in getattr(section, "describing", ()):
                continue
            elif key in getattr(section, "named_sizes", ()) or (
                key in hints and self.fits(hints[key], entry)
            ):
                entries[key] = entry
            else:
                ignored.append(key)
        if ignored:
            name = node.value[option].value
            self.notes.append(
                f"{join(path, option)} is {name}, which has no "
                f"{' and no '.join(ignored)}: what {Path(node.file).name} sets there "
                "is ignored"
            )
        return replace(node, value=entries)

    def expand_size(self, section: Any, node: Node, path: str) -> dict[str, Node]:
        """Replace `size` by the fields it names; keys beside it win.

        A key of the file does not win against a size from an option.
        """
        sizes: Mapping[str, Any] = getattr(section, "named_sizes", {})
        entries = dict(node.value)
        if not sizes or "size" not in entries:
            return entries
        size = entries.pop("size")
        if size.value not in list(sizes):
            message = f"got {size.describe()}, expected one of {', '.join(sizes)}"
            self.problems.append(size.problem(join(path, "size"), message))
            return entries
        result = {}
        for key, value in sizes[size.value].items():
            result[key] = Node(value, str(value), size.file, size.line)
        for key, entry in entries.items():
            if key not in result or size.line or not entry.line:
                result[key] = entry
        return result

    def advise_kind(self, sections: list[Any], entry: Node) -> None:
        """Name the kinds of data that read files, if an option sets other files."""
        if entry.line or len(sections) < 2:
            return
        key, names = find_discriminator(sections)
        kinds = [name for name in names if getattr(names[name], "recognised", ())]
        last = self.problems.pop()
        message = f"{last.message}; files are read by {key} {' or '.join(kinds)}"
        if isinstance(entry.value, str) and not Path(entry.value).exists():
            message += f"; there is no such file: {entry.value}"
        self.problems.append(replace(last, message=message) if kinds else last)

    def fits(self, annotation: Any, node: Node) -> bool:
        """Return whether a node is a value of a type."""
        return Builder([]).build(annotation, node, "") is not FAILED

    def fail(self, node: Node, path: str, message: str) -> Any:
        """Report a problem at a node."""
        self.problems.append(node.problem(path, message))
        return FAILED


@cache
def make_adapter(annotation: Any) -> Any:
    """Return pydantic's strict checks of a type."""
    return pydantic.TypeAdapter(annotation, config=STRICT)


@cache
def get_field_types(section: Any) -> dict[str, Any]:
    """Return the annotations of a dataclass's fields."""
    hints = get_type_hints(section, include_extras=True)
    fields = [item for item in dataclasses.fields(section) if item.init]
    return {item.name: hints[item.name] for item in fields}


def strip_annotation(annotation: Any) -> Any:
    """Return the type inside `Annotated`, or its `Discriminated`."""
    if get_origin(annotation) is not Annotated:
        return annotation
    inner, *notes = get_args(annotation)
    for note in notes:
        if isinstance(note, Discriminated):
            return note
    return inner


def list_alternatives(annotation: Any) -> list[Any]:
    """Return the members of a union, or the only type, sections without notes."""
    inner = strip_annotation(annotation)
    if get_origin(inner) not in (Union, types.UnionType):
        return [inner if is_section(inner) else annotation]
    alternatives = []
    for member in get_args(inner):
        alternatives += list_alternatives(member)
    return alternatives


def is_section(annotation: Any) -> bool:
    """Return whether a type stands for a mapping with keys of its own."""
    inner = strip_annotation(annotation)
    return is_dataclass(inner) and inner is not Discriminated


def find_discriminator(sections: Sequence[Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the key that tells dataclasses apart, and the dataclass of each value."""
    hints = [get_field_types(section) for section in sections]
    for key in hints[0]:
        names: dict[str, Any] = {}
        count = 0
        for section, hint in zip(sections, hints, strict=True):
            kind = strip_annotation(hint.get(key))
            if get_origin(kind) is not Literal:
                break
            count += len(get_args(kind))
            names.update(dict.fromkeys(get_args(kind), section))
        else:
            if len(names) == count:
                return key, names
    listed = ", ".join(section.__name__ for section in sections)
    raise TypeError(f"{listed}: a union without a Literal field of different values")


def switch_kind(node: Node, key: str, names: Mapping[str, Any]) -> Node:
    """Return the mapping with the name of the dataclass that reads its files.

    Only an option switches, and only where the file's own dataclass does not
    recognize the files and another one does.
    """
    entry, files = node.value.get(key), node.value.get(FILES_KEY)
    if files is None or files.line or entry is None or not entry.line:
        return node
    section = names.get(entry.value)
    generates = not getattr(section, "recognised", ())
    if section is None or (generates and isinstance(files.value, int)):
        return node
    value = files.plain(numbers_as_text=True)
    if recognizes(section, value):
        return node
    for name, candidate in names.items():
        if recognizes(candidate, value):
            switched = Node(name, name, files.file, 0, entry)
            return replace(node, value=node.value | {key: switched})
    return node


def find_switch(hints: Mapping[str, Any], node: Node) -> str | None:
    """Return the key by which an option chose another dataclass than the file."""
    for key, hint in hints.items():
        entry = node.value.get(key)
        kind = strip_annotation(hint)
        if get_origin(kind) is not Literal or entry is None or entry.replaced is None:
            continue
        if len(get_args(kind)) == 1 and entry.replaced.value != entry.value:
            return key
    return None


def advise_key(key: str, hints: Mapping[str, Any], entries: Mapping[str, Node]) -> str:
    """Return which key an unknown one could be, also one of a section below."""
    paths = []
    for name, hint in hints.items():
        for choice in list_alternatives(hint):
            is_plain = isinstance(choice, Discriminated) or not is_section(choice)
            if not is_plain and key in get_field_types(choice):
                paths.append(join(name, key))
        entry = entries.get(name)
        if entry is not None and isinstance(entry.value, dict) and key in entry.value:
            paths.append(join(name, key))
    if paths:
        return f"did you mean {' or '.join(map(repr, dict.fromkeys(paths)))}?"
    return suggest(key, list(hints))


def report_missing(node: Node, path: str) -> Problem:
    """Return the problem of a mapping that lacks a key."""
    message = "missing; set it in the file, or with --set KEY=VALUE"
    from_option = any(not entry.line for entry in node.value.values())
    if from_option and node.line:
        return Problem(f"--set {path}", 0, path, message)
    return node.problem(path, message)


def report_rule(
    node: Node, path: str, entries: Mapping[str, Node], message: str
) -> Problem:
    """Return the problem of a rule between fields.

    It is reported at the options that set the fields it names, or any option of the
    section where it names no field; without options at the section's line.
    """
    words = set(re.findall(r"\w+", message))
    names_none = bool(path) and not words & entries.keys()
    named = {}
    for key, entry in entries.items():
        if names_none or key in words:
            named[join(path, key)] = entry
    options = [key for key, entry in named.items() if not entry.line]
    if not options:
        for key, entry in named.items():
            inner = entry.value if isinstance(entry.value, dict) else {}
            options += [join(key, name) for name in inner if not inner[name].line]
    if not options or not node.line:
        return node.problem(path, message)
    options = [option for option in options if option in message] or options
    listed = " and ".join(options)
    if len(options) > 1:
        message = message.removeprefix(f"{listed} ")
    return Problem(f"--set {listed}", 0, "", message)


def describe_errors(errors: Sequence[Any]) -> str:
    """Return what pydantic expected, in words."""
    words = []
    for error in errors:
        context = error.get("ctx", {})
        message = str(error["msg"]).removeprefix("Input should be ")
        text = EXPECTED.get(error["type"], message)
        words.append(text.format(**context).replace("'", ""))
    return " or ".join(dict.fromkeys(words))


def find_line(node: Node, location: Sequence[Any]) -> int:
    """Return the line of the part that pydantic's location names, as far as it exists."""
    for step in location:
        is_index = isinstance(node.value, list) and step in range(len(node.value))
        is_key = isinstance(node.value, dict) and step in node.value
        if not is_index and not is_key:
            break
        node = node.value[step]
    return node.line
