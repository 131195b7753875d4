"""The dataclass that a mapping of a run file stands for, one of several."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from regard.config.expected import bare, expected, shown
from regard.config.registry import Discriminated
from regard.config.yaml_nodes import Node, Problem, join, nearest

RECOGNISED = "train"
"""The key by whose value, from an option, a dataclass `recognises` its own kind of data."""


def choose(classes: list[Any], node: Node, path: str, problems: list[Problem]) -> tuple[Any, Node]:
    """The only dataclass, or the one that the mapping names, or None; and the mapping, with the name of the dataclass
    that recognises its data where an option names data of another kind than the file."""
    match classes:
        case [Discriminated() as note]:
            key, named, find = note.key, note.registry, note.choose
        case [only]:
            return only, node
        case _:
            key, named = _by_name(classes)
            node, find = _recognised(node, key, named), named.__getitem__
    inner = join(path, key)
    entry = node.value.get(key)
    if entry is None:
        problems.append(node.problem(inner, f"missing; expected {expected(Literal[tuple(named)])}"))
    elif isinstance(entry.value, dict | list) or entry.value not in named:
        what = f"got {shown(entry)}, expected {expected(Literal[tuple(named)])}"
        close = nearest(entry.value, list(named)) if isinstance(entry.value, str) else ""
        problems.append(entry.problem(inner, f"{what}; {close}" if close.startswith("did") else what))
    else:
        return find(entry.value), node
    return None, node


def switched(schema: Any, node: Node) -> str | None:
    """The key by which an option chose the dataclass instead of the one that the file names; else None."""
    for key, hint in get_type_hints(schema, include_extras=True).items():
        entry = node.value.get(key)
        names = get_origin(bare(hint)) is Literal and len(get_args(bare(hint))) == 1
        if names and entry is not None and entry.replaced is not None and entry.replaced.value != entry.value:
            return key
    return None


def _recognised(node: Node, key: str, named: Mapping[str, Any]) -> Node:
    """The mapping, with another name under `key` where the file's dataclass does not recognise the data of an option
    and another one does."""
    entry, data = node.value.get(key), node.value.get(RECOGNISED)
    if entry is None or data is None or not entry.line or data.line or entry.value not in named:
        return node
    value = data.plain()
    fits = [name for name in dict.fromkeys([entry.value, *named]) if _recognises(named[name], value)]
    if not fits or fits[0] == entry.value:
        return node
    return replace(node, value=node.value | {key: Node(fits[0], fits[0], data.file, 0, entry)})


def _recognises(schema: Any, value: Any) -> bool:
    recognises = getattr(schema, "recognises", None)
    return recognises is not None and recognises(value)


def _by_name(classes: list[Any]) -> tuple[str, Mapping[str, Any]]:
    """The discriminator of dataclasses, and the dataclass of each of its values."""
    hints = [get_type_hints(each, include_extras=True) for each in classes]
    keys = [name for name in hints[0] if is_discriminator([bare(hint.get(name)) for hint in hints])]
    if not keys:
        raise TypeError(f"{expected(classes[0])}: a union without a discriminator, a Literal field of different values")
    key = keys[0]
    pairs = zip(classes, hints, strict=True)
    return key, {value: each for each, hint in pairs for value in get_args(bare(hint[key]))}


def is_discriminator(kinds: Sequence[Any]) -> bool:
    """Whether a field of these types, one a class, is a `Literal` in all of them and has no value in two."""
    values = [value for kind in kinds for value in get_args(kind)]
    return all(get_origin(kind) is Literal for kind in kinds) and len(set(values)) == len(values)
