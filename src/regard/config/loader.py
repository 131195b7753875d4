"""Run files as frozen dataclasses, with the lines of mistakes, and the parts that they name."""

import dataclasses
import json
import logging
import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, is_dataclass, replace
from functools import cache, cached_property
from importlib import import_module
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import pydantic

from regard.config import yaml_tree
from regard.config.file_kinds import recognizes
from regard.config.yaml_tree import Node, Problem, join, suggest
from regard.errors import InputError
from regard.extras import find_plugins, name_package


class Registry(Mapping[str, Any]):
    """Parts by name, each imported at its first use.

    Args:
        package: The package of the built-in parts.
        locations: Each built-in part, or its `module:attribute` within `package`.
        group: Entry points by which other packages add parts; a built-in name wins
            over theirs. Empty: they add none.
    """

    def __init__(
        self, package: str, locations: Mapping[str, Any], group: str = ""
    ) -> None:
        self.package = package
        self.locations = locations
        self.group = group

    @cached_property
    def plugins(self) -> Mapping[str, EntryPoint]:
        """The entry points that other packages add, by name."""
        return find_plugins(self.group)

    def __getitem__(self, name: str) -> Any:
        """Import the part.

        Raises:
            KeyError: The name is unknown.
            InputError: A plugin cannot be imported.
        """
        if name not in self.locations:
            return self._load_plugin(name)
        location = self.locations[name]
        if not isinstance(location, str):
            return location
        module, _, attribute = location.partition(":")
        return getattr(import_module(f"{self.package}.{module}"), attribute)

    def build(self, config: Any, *sizes: Any) -> Any:
        """Build the part named in a configuration, with fresh weights."""
        return self[config.name](*sizes, config)

    def _load_plugin(self, name: str) -> Any:
        point = self.plugins[name]
        try:
            return point.load()
        except Exception as error:
            raise InputError(
                f"{name_package(point)}: {self.group} {name!r} cannot be imported from "
                f"{point.value} ({type(error).__name__}: {error}); repair or uninstall the "
                "package"
            ) from error

    def __contains__(self, name: object) -> bool:
        """Return whether there is such a part; built-in ones need no search."""
        return name in self.locations or name in self.plugins

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self.locations, *sorted(self.plugins)]))

    def __len__(self) -> int:
        return len(list(iter(self)))


@dataclass(frozen=True, eq=False)
class RegisteredName:
    """A note on a `str` field that names a part of a registry."""

    registry: Registry
    without: tuple[str, ...] = ()
    """Names that the field does not accept."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names that the field accepts."""
        return tuple(name for name in self.registry if name not in self.without)

    def check(self, name: str) -> str:
        """Return the name. Raises ValueError for an unknown one."""
        if name in self.without or name not in self.registry:
            raise ValueError(", ".join(self.names))
        return name

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema  # not for commands that read no run file

        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> Any:
        return {"enum": list(self.names)}


@dataclass(frozen=True, eq=False)
class Discriminated:
    """A note on a field that is one of several dataclasses, `Annotated[Any, ...]`."""

    key: str
    """The field that names the dataclass."""
    registry: Mapping[str, Any]
    """The dataclasses by name, or parts that have one."""
    attribute: str = ""
    """The attribute of a part that is its dataclass."""
    implied: Mapping[str, str] = field(default_factory=dict)
    """The name that a mapping without one has, by a key that it has."""

    def choose(self, name: str) -> Any:
        """Return the dataclass of a name. Raises as the registry."""
        part = self.registry[name]
        return getattr(part, self.attribute) if self.attribute else part

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        choices = {
            name: handler.generate_schema(self.choose(name)) for name in self.registry
        }
        return core_schema.tagged_union_schema(choices, self.key)


STRICT = pydantic.ConfigDict(strict=True, arbitrary_types_allowed=True)
FILES_KEY = "train"
"""The key of the data files. If an option sets it, the files choose the kind of data
(`switch_kind`)."""
NOTHING = Node(None, "", "", 0)
FAILED = object()
"""The value of a node whose problems have been reported."""
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
"""What was expected, by the type of pydantic's error; fields are of its context."""
log = logging.getLogger("regard")


@dataclass(frozen=True)
class Renames:
    """Former names in run files.

    Attributes:
        values: For each top-level key, the new name of each former value.
        keys: The new name of each former key, a dotted path.
        retired: Removed keys, as dotted paths, each with the only value that is still
            accepted.
    """

    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    retired: Mapping[str, Any] = field(default_factory=dict)

    def apply(self, root: Node) -> None:
        """Replace former names in a tree with warnings, and drop retired keys."""
        for key, names in self.values.items():
            node = root.value.get(key)
            if node is not None and node.text in names:
                name = names[node.text]
                root.value[key] = replace(node, value=name, text=name)
                message = f"{node.text} is now named {name}; change it"
                problem = Problem(node.file, node.line, key, message)
                log.warning("%s", problem)
        for path, name in self.keys.items():
            entries, key = find_entries(root, path)
            if key in entries:
                entries[name] = entries.pop(key)
        for path, value in self.retired.items():
            entries, key = find_entries(root, path)
            if key in entries and entries[key].plain() == value:
                del entries[key]


def find_entries(root: Node, path: str) -> tuple[dict[str, Node], str]:
    """Return the mapping that holds the last key of a dotted path, and that key."""
    *parents, key = path.split(".")
    holder = root
    for parent in parents:
        entries = holder.value if isinstance(holder.value, dict) else {}
        holder = entries.get(parent, NOTHING)
    return (holder.value if isinstance(holder.value, dict) else {}), key


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
        note: Called with a line for each mapping whose keys are partly ignored, because
            an option chose another dataclass than the file.

    Raises:
        InputError: A key is unknown, missing, repeated or has a wrong value. The
            message has a line for each.
    """
    root = read_tree(path, settings)
    if renames is not None:
        renames.apply(root)
    builder = Builder()
    value = builder.build(schema, root, "")
    if builder.problems:
        # Problems of options, which have line 0, come last.
        builder.problems.sort(key=lambda item: item.line or 1 << 30)
        raise InputError("\n".join(map(str, builder.problems)))
    for line in builder.notes:
        note(line)
    return value


def read_tree(path: Path, settings: Sequence[str] = ()) -> Node:
    """Return the mapping of a file with settings on top.

    Raises:
        InputError: The file has no mapping, or settings are malformed. The message has
            a line for each.
    """
    root = yaml_tree.read(path)
    if root.value is None:
        raise InputError(f"{path}: is empty; expected the keys of a run file")
    if not isinstance(root.value, dict):
        text = root.describe()
        raise InputError(f"{path}:{root.line}: got {text} at the top, not a mapping")
    faults = []
    for setting in settings:
        try:
            yaml_tree.apply_setting(root, setting)
        except InputError as error:
            faults.append(str(error))
    if faults:
        raise InputError("\n".join(faults))
    return root


class Builder:
    """A builder of values from nodes, which collects problems and notes."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.notes: list[str] = []

    def build(self, annotation: Any, node: Node, path: str) -> Any:
        """Return the value of a node, converted to a type, or `FAILED`.

        Args:
            annotation: The type.
            path: The dotted path of its key, for messages.
        """
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
        """Record a problem at a node, and return `FAILED`."""
        self.problems.append(Problem(node.file, node.line, path, message))
        return FAILED

    def build_plain(
        self, annotation: Any, node: Node, path: str, alternative: str = ""
    ) -> Any:
        """Return the value of a node without dataclasses inside, or `FAILED`.

        It is checked as JSON, since pydantic's strict rules accept a list for a tuple
        there. `alternative` ends the list of what was expected.
        """
        if isinstance(node.value, int) and node.value.bit_length() > 63:
            return self.fail(
                node, path, f"got {node.text}, expected a number below 2^63"
            )
        adapter = make_adapter(annotation)
        errors: list[Any] = []
        # A number in an option may be meant as text.
        for as_text in (False,) if node.line else (False, True):
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
        """Return an instance of the dataclass that a mapping selects, or `FAILED`."""
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
                message = f"unknown key; {advise_key(name, hints, entries)}"
                self.fail(entry, join(path, name), message)
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
                if has_options and node.line:  # an option caused it, not the file
                    node = replace(node, file=f"--set {place}", line=0)
                message = "missing; set it in the file, or with --set KEY=VALUE"
                self.fail(node, place, message)
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
        """Choose the dataclass of a mapping.

        Returns:
            The dataclass, or None if the mapping names none of `sections`; the key that
            names it; and the mapping, which names another kind of data if an option
            sets files of that kind.
        """
        first = sections[0]
        if isinstance(first, Discriminated):
            key, names, find = first.key, first.registry, first.choose
        elif len(sections) == 1:
            return first, "", node
        else:
            key, names = find_discriminator(sections)
            node = switch_kind(node, key, names)
            find = names.__getitem__
        entry = node.value.get(key)
        if entry is None and isinstance(first, Discriminated):
            for name in first.implied.keys() & node.value.keys():
                return find(first.implied[name]), key, node
        if entry is not None and isinstance(entry.value, str) and entry.value in names:
            return find(entry.value), key, node
        message = f"expected one of {', '.join(names)}"
        if entry is None:
            hint = (
                "" if path else ". A file of another program is no run file of regard"
            )
            self.fail(node, join(path, key), f"missing; {message}{hint}")
        else:
            advice = suggest(str(entry.value), list(names))
            message += f"; {advice}" if advice.startswith("did") else ""
            self.fail(entry, join(path, key), f"got {entry.describe()}, {message}")
        return None, key, node

    def select_entries(
        self, section: Any, node: Node, key: str, path: str
    ) -> dict[str, Node]:
        """Return the entries of a mapping that apply to its dataclass.

        If an option chose another dataclass than the file, entries of the file are
        dropped if the dataclass lacks the key, if the value does not fit, or if they
        describe the file's own data (`describing` of the dataclass).
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
            fits = hint and Builder().build(hint, entry, "") is not FAILED
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
        """Add to the last problem, on data files, the kinds of data that read files."""
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
    """Return pydantic's strict validator of a type."""
    return pydantic.TypeAdapter(annotation, config=STRICT)


@cache
def get_field_types(section: Any) -> dict[str, Any]:
    """Return the annotations of a dataclass's fields."""
    hints = get_type_hints(section, include_extras=True)
    return {item.name: hints[item.name] for item in dataclasses.fields(section)}


def strip_annotation(annotation: Any) -> Any:
    """Return the `Discriminated` of an `Annotated` type, else the type inside."""
    if get_origin(annotation) is not Annotated:
        return annotation
    inner, *notes = get_args(annotation)
    return next((note for note in notes if isinstance(note, Discriminated)), inner)


def list_alternatives(annotation: Any) -> list[Any]:
    """Return the members of a union, or the type itself; sections lose `Annotated`."""
    inner = strip_annotation(annotation)
    if get_origin(inner) not in (Union, types.UnionType):
        return [inner if is_section(inner) else annotation]
    return [choice for item in get_args(inner) for choice in list_alternatives(item)]


def is_section(annotation: Any) -> bool:
    """Return whether a mapping builds a type: a dataclass or a `Discriminated`."""
    inner = strip_annotation(annotation)
    return is_dataclass(inner) and inner is not Discriminated


def find_discriminator(sections: Sequence[Any]) -> tuple[str, dict[str, Any]]:
    """Return the key that distinguishes dataclasses, and the dataclass of each value.

    Raises:
        TypeError: There is no such key.
    """
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
    """Return the mapping, with the name of the dataclass that recognizes its files.

    The name changes only if an option sets the files, no option sets the name, and the
    dataclass named by the file does not recognize the files but another one does.
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


OTHER_NAMES = {
    "lr": "learning_rate",
    "batch_size": "batch_tokens",
    "max_steps": "steps",
    "num_steps": "steps",
    "max_epochs": "epochs",
    "num_epochs": "epochs",
    "num_train_epochs": "epochs",
    "warmup_steps": "warmup",
    "wd": "weight_decay",
    "grad_clip": "clip",
    "max_grad_norm": "clip",
    "eval_every": "validate_every",
    "eval_steps": "validate_every",
    "save_every": "checkpoint_every",
    "save_steps": "checkpoint_every",
    "early_stopping": "patience",
    "hidden_size": "width",
    "d_model": "width",
    "num_layers": "layers",
    "n_layer": "layers",
    "num_heads": "heads",
    "n_head": "heads",
    "max_length": "context",
    "vocab_size": "size",
}
"""Keys by the names that other libraries give them."""


def advise_key(key: str, hints: Mapping[str, Any], entries: Mapping[str, Node]) -> str:
    """Suggest a key for an unknown one, also from the sections below."""
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
    name = OTHER_NAMES.get(key)
    if name in hints:
        paths.append(repr(name))
    return f"did you mean {' or '.join(paths)}?" if paths else suggest(key, list(hints))


def locate_rule(
    node: Node, path: str, entries: Mapping[str, Node], message: str
) -> Problem:
    """Return the problem of a rule between fields, with the place of its cause.

    This is the options that set the fields named in the message, else the section.
    """
    options = []
    for name, entry in entries.items():
        if not entry.line and re.search(rf"\b{name}\b", message):
            options.append(join(path, name))
    if not options or not node.line:
        return Problem(node.file, node.line, path, message)
    return Problem(f"--set {' and '.join(options)}", 0, "", message)


def describe_errors(errors: Sequence[Any]) -> str:
    """Return what pydantic expected, in words."""
    words = []
    for error in errors:
        message = str(error["msg"]).removeprefix("Input should be ")
        text = EXPECTED.get(error["type"], message)
        words.append(text.format(**error.get("ctx", {})).replace("'", ""))
    return " or ".join(dict.fromkeys(words))
