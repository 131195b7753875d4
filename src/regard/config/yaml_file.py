"""A YAML file becomes frozen dataclasses; every mistake in it is reported at once, each with its line."""

import dataclasses
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import pydantic

from regard.config import yaml_nodes
from regard.config.expected import bare, expected, members, shown, valued
from regard.config.mistakes import broken_rule, missing, unfit, unknown, wrong_files
from regard.config.recognition import RECOGNISED, recognised
from regard.config.registry import Discriminated
from regard.config.yaml_nodes import Node, Problem, join, nearest
from regard.errors import InputError

STRICT = pydantic.ConfigDict(strict=True, arbitrary_types_allowed=True)
log = logging.getLogger("regard")
FAILED = object()  # a part whose problems are listed already


class Report(list[Problem]):
    """The problems of a file, with notes about what is left out of it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__(problems)
        self.notes: list[str] = []


def load(
    path: Path,
    schema: Any,
    overrides: Sequence[str] = (),
    renamed: Mapping[str, Mapping[str, str]] | None = None,
    note: Callable[[str], None] = log.info,
) -> Any:
    """Read `path` as the dataclass `schema`, or as one of a union of them, with `overrides` (`key.sub=value`, the last
    one wins) on top.

    The discriminator of a union is the field that is a `Literal` in all of its dataclasses, with different values in
    each (`kind`, `name`), or the key of `Discriminated`; the file must have it. Where a dataclass has `named_sizes`,
    the key `size` sets several of its fields at once. Scalars are checked by pydantic without conversion, save that a
    whole number is also a number. `renamed` maps former values of keys at the top to those that replace them; a file
    that has one is read with a warning. `note` takes a line for each mapping of which an option left keys out by
    choosing another dataclass. Raises InputError: one line for each unknown, missing, repeated or unfitting
    key, or one for an unreadable file."""
    root, problems = tree(path, schema, overrides)
    for key, names in (renamed or {}).items():
        if (node := _renamed(root.value, key, names)) is not None:
            new = names[node.value]
            log.warning(
                "%s:%d: %s %s is now named %s; change it",
                node.file,
                node.line,
                key,
                node.value,
                new,
            )
    value = _build(schema, root, "", problems)
    refuse(problems)
    for each in problems.notes:
        note(each)
    return value


def tree(path: Path, schema: Any, overrides: Sequence[str] = ()) -> tuple[Node, Report]:
    """The mapping of a file with overrides on top, and the problems of its text. Raises InputError where there is no
    mapping."""
    root, problems = yaml_nodes.read(path)
    if root.value is None and not problems:
        raise InputError(f"{path}: is empty; expected {expected(schema)}")
    if not isinstance(root.value, dict):
        raise InputError(
            f"{path}:{root.line}: got {shown(root)} at the top; expected {expected(schema)}"
        )
    for override in overrides:
        problems += yaml_nodes.place(root, override)
    return root, Report(problems)


def check(
    path: Path,
    schema: Any,
    overrides: Sequence[str] = (),
    renamed: Mapping[str, Mapping[str, str]] | None = None,
) -> None:
    """Raises InputError for the mistakes that `load` would find, without a value and without a warning."""
    root, problems = tree(path, schema, overrides)
    for key, names in (renamed or {}).items():
        _renamed(root.value, key, names)
    _build(schema, root, "", problems)
    refuse(problems)


def part(path: Path, key: str, schema: Any, overrides: Sequence[str] = ()) -> Any:
    """The mapping under one key of the file at `path`, with overrides, as `schema`; an absent one is empty. Raises
    InputError for the mistakes in it."""
    root, problems = tree(path, Mapping[str, Any], overrides)
    node = root.value.get(key) or Node({}, "", root.file, root.line)
    own = Report([each for each in problems if each.path.partition(".")[0] == key])
    value = _build(schema, node, key, own)
    refuse(own)
    return value


def refuse(problems: list[Problem]) -> None:
    """Raises InputError for problems, a line for each in the order of the file."""
    if problems:
        raise InputError(
            "\n".join(
                map(
                    str,
                    sorted(problems, key=lambda problem: problem.line or float("inf")),
                )
            )
        )


def _renamed(
    entries: dict[str, Node], key: str, names: Mapping[str, str]
) -> Node | None:
    """Replace the former value of a key, and return the node that had it, if it had one."""
    node = entries.get(key)
    if node is None or not isinstance(node.value, str) or node.value not in names:
        return None
    entries[key] = dataclasses.replace(
        node, value=names[node.value], text=names[node.value]
    )
    return node


def _build(annotation: Any, node: Node, path: str, problems: list[Problem]) -> Any:
    """The value of `node` as `annotation`; append its mistakes to `problems`."""
    choices = members(annotation)
    classes = [choice for choice in choices if dataclasses.is_dataclass(choice)]
    if classes and isinstance(node.value, dict):
        chosen, node = _choose(classes, node, path, problems)
        return (
            FAILED
            if chosen is None
            else _section(classes, chosen, node, path, problems)
        )
    inner = get_args(bare(annotation))
    if (
        isinstance(node.value, list)
        and inner
        and dataclasses.is_dataclass(members(inner[0])[0])
    ):
        return _items(annotation, node, path, problems)
    if classes:
        plain = tuple(choice for choice in choices if choice not in classes)
        found = _leaf(reduce(or_, plain), node, path, []) if plain else FAILED
        if found is FAILED:
            problems.append(unfit(annotation, node, path))
        return found
    return _leaf(annotation, node, path, problems)


def _section(
    classes: list[Any], chosen: Any, node: Node, path: str, problems: list[Problem]
) -> Any:
    """The chosen dataclass of a mapping, whose other mistakes follow where files of an option do not fit."""
    data, hint = (
        _of_option(node),
        get_type_hints(chosen, include_extras=True).get(RECOGNISED),
    )
    if data and hint and any(getattr(each, "recognised", ()) for each in classes):
        fits = _build(hint, data, "", []) is not FAILED
        if wrong := wrong_files(classes, chosen, data, join(path, RECOGNISED), fits):
            problems.append(wrong)
            return FAILED
    return _fill(chosen, _kept(chosen, node, path, problems), path, problems, classes)


def _of_option(node: Node) -> Node | None:
    """The data of a mapping, if an option names them."""
    data = node.value.get(RECOGNISED)
    return None if data is None or data.line else data


def _items(annotation: Any, node: Node, path: str, problems: list[Problem]) -> Any:
    """A tuple or list of dataclasses; the length that the type requires is checked separately."""
    before, outer, inner = len(problems), bare(annotation), get_args(bare(annotation))
    fixed = get_origin(outer) is tuple and inner[-1] is not Ellipsis
    kinds = (
        inner
        if fixed and len(inner) == len(node.value)
        else [inner[0]] * len(node.value)
    )
    pairs = zip(kinds, node.value, strict=True)
    built = [
        _build(kind, item, f"{path}[{i}]", problems)
        for i, (kind, item) in enumerate(pairs)
    ]
    loose: Any = tuple[(Any,) * len(inner)] if fixed else list[Any]
    notes = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    checked: Any = Annotated[(loose, *notes)] if notes else loose
    try:
        pydantic.TypeAdapter(checked).validate_python(built)
    except pydantic.ValidationError:
        problems.append(unfit(annotation, node, path))
    return (
        FAILED
        if len(problems) > before
        else built
        if get_origin(outer) is list
        else tuple(built)
    )


def _choose(
    classes: list[Any], node: Node, path: str, problems: list[Problem]
) -> tuple[Any, Node]:
    """The only dataclass, or the one that the mapping names, or None; and the mapping, with the name of the dataclass
    that recognises its data where an option names data of another kind than the file."""
    match classes:
        case [Discriminated() as note]:
            key, named, find = note.key, note.registry, note.choose
        case [only]:
            return only, node
        case _:
            key, named = _by_name(classes)
            node = recognised(node, key, named) if _of_option(node) else node
            find = named.__getitem__
    inner = join(path, key)
    entry = node.value.get(key)
    if entry is None:
        problems.append(
            node.problem(inner, f"missing; expected {expected(Literal[tuple(named)])}")
        )
    elif isinstance(entry.value, dict | list) or entry.value not in named:
        what = f"got {shown(entry)}, expected {expected(Literal[tuple(named)])}"
        close = (
            nearest(entry.value, list(named)) if isinstance(entry.value, str) else ""
        )
        problems.append(
            entry.problem(
                inner, f"{what}; {close}" if close.startswith("did") else what
            )
        )
    else:
        return find(entry.value), node
    return None, node


def _switched(schema: Any, node: Node) -> str | None:
    """The key by which an option chose the dataclass instead of the one that the file names; else None."""
    for key, hint in get_type_hints(schema, include_extras=True).items():
        entry = node.value.get(key)
        names = get_origin(bare(hint)) is Literal and len(get_args(bare(hint))) == 1
        if (
            names
            and entry is not None
            and entry.replaced is not None
            and entry.replaced.value != entry.value
        ):
            return key
    return None


def _by_name(classes: list[Any]) -> tuple[str, Mapping[str, Any]]:
    """The discriminator of dataclasses, and the dataclass of each of its values."""
    hints = [get_type_hints(each, include_extras=True) for each in classes]
    keys = [
        name
        for name in hints[0]
        if is_discriminator([bare(hint.get(name)) for hint in hints])
    ]
    if not keys:
        raise TypeError(
            f"{expected(classes[0])}: a union without a discriminator, a Literal field of different values"
        )
    key = keys[0]
    pairs = zip(classes, hints, strict=True)
    return key, {
        value: each for each, hint in pairs for value in get_args(bare(hint[key]))
    }


def is_discriminator(kinds: Sequence[Any]) -> bool:
    """Whether a field of these types, one a class, is a `Literal` in all of them and has no value in two."""
    values = [value for kind in kinds for value in get_args(kind)]
    return all(get_origin(kind) is Literal for kind in kinds) and len(
        set(values)
    ) == len(values)


def _kept(schema: Any, node: Node, path: str, problems: list[Problem]) -> Node:
    """The mapping without the file's keys that the dataclass lacks, that do not fit it, or that describe the file's own
    data, its `describing`, if an option chose another dataclass than the file."""
    if (option := _switched(schema, node)) is None:
        return node
    hints, kept, left = get_type_hints(schema, include_extras=True), {}, []
    for key, entry in node.value.items():
        mistakes: list[Problem] = []
        if entry.line and key in getattr(schema, "describing", ()):
            continue
        if entry.line and key in hints:
            _build(hints[key], entry, join(path, key), mistakes)
        if (
            entry.line
            and (mistakes or key not in hints)
            and key not in getattr(schema, "named_sizes", {})
        ):
            left.append(key)
        else:
            kept[key] = entry
    if left and isinstance(problems, Report):
        chosen = f"{join(path, option)} is {node.value[option].value}"
        problems.notes.append(
            f"{chosen}, which has no {' and no '.join(left)}: what {Path(node.file).name} sets there is ignored"
        )
    return dataclasses.replace(node, value=kept)


def _fill(
    schema: Any,
    node: Node,
    path: str,
    problems: list[Problem],
    choices: Sequence[Any] = (),
) -> Any:
    before, hints = len(problems), get_type_hints(schema, include_extras=True)
    fields = {field.name: field for field in dataclasses.fields(schema) if field.init}
    entries, known = (
        _sized(schema, node.value, path, problems),
        {name: hints[name] for name in fields},
    )
    for key, entry in entries.items():
        if key not in fields:
            problems.append(
                entry.problem(join(path, key), unknown(key, known, entries, choices))
            )
    values = {}
    for name, field in fields.items():
        if name in entries:
            values[name] = _build(
                hints[name], entries[name], join(path, name), problems
            )
        elif (
            field.default is dataclasses.MISSING
            and field.default_factory is dataclasses.MISSING
        ):
            problems.append(missing(hints[name], node, join(path, name)))
    if len(problems) > before:
        return FAILED
    try:
        return schema(**values)
    except (
        ValueError,
        TypeError,
    ) as error:  # a rule between fields, from the dataclass's own check
        problems.append(broken_rule(node, path, entries, " ".join(str(error).split())))
        return FAILED


def _sized(
    schema: Any, entries: dict[str, Node], path: str, problems: list[Problem]
) -> dict[str, Node]:
    """Expand the `size` of a dataclass that has `named_sizes`. A key beside it overrides it, except a key of the file
    beside a size from an option."""
    sizes: Mapping[str, Mapping[str, Any]] = getattr(schema, "named_sizes", {})
    if not sizes or "size" not in entries:
        return entries
    own = dict(entries)
    size = own.pop("size")
    if not isinstance(size.value, str) or size.value not in sizes:
        what = f"got {shown(size)}, expected {expected(Literal[tuple(sizes)])}"
        problems.append(size.problem(join(path, "size"), what))
        return own
    named = {
        key: Node(value, str(value), size.file, size.line)
        for key, value in sizes[size.value].items()
    }
    return named | {
        key: entry
        for key, entry in own.items()
        if key not in named or size.line or not entry.line
    }


def _leaf(annotation: Any, node: Node, path: str, problems: list[Problem]) -> Any:
    """Check as JSON: pydantic's strict rules there refuse "12" as a number but accept a list as a tuple."""
    try:
        return pydantic.TypeAdapter(annotation, config=STRICT).validate_json(
            json.dumps(valued(annotation, node))
        )
    except pydantic.ValidationError as error:
        steps = list(error.errors()[0]["loc"])
        problems.append(
            dataclasses.replace(unfit(annotation, node, path), line=_line(node, steps))
        )
        return FAILED


def _line(node: Node, steps: list[Any]) -> int:
    """The line of the part at `steps`, keys and indices from pydantic, as far as they exist."""
    inside = range(len(node.value)) if isinstance(node.value, list) else node.value
    if steps and isinstance(inside, range | dict) and steps[0] in inside:
        return _line(node.value[steps[0]], steps[1:])
    return node.line
