"""The values that a field's type expects, in words, for messages."""

import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from regard.config.registry import Discriminated, RegisteredName
from regard.config.yaml_nodes import Node

WORDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    type(None): "null",
}
SIGNS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<", "multiple_of": "a multiple of"}
SIZES = {"min_length": "of length >=", "max_length": "of length <="}


def members(annotation: Any) -> tuple[Any, ...]:
    """The alternatives of a union; of anything else, itself. `Annotated` around it is removed."""
    inner = bare(annotation)
    alternatives = (
        get_args(inner) if get_origin(inner) in (Union, types.UnionType) else (inner,)
    )
    return tuple(one_of(each) or each for each in alternatives)


def bare(annotation: Any) -> Any:
    """The type inside `Annotated`, or its `Discriminated`; of anything else, itself."""
    return one_of(annotation) or (
        get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    )


def one_of(annotation: Any) -> Discriminated | None:
    """The `Discriminated` of an annotation, if it has one."""
    notes = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    return next((note for note in notes if isinstance(note, Discriminated)), None)


def expected(annotation: Any) -> str:
    """`Annotated[int, Field(ge=1)]` -> "a whole number >= 1"."""
    named = one_of(annotation)
    if named is not None:
        return f"a mapping with {named.key}: {expected(Literal[tuple(named.registry)])}"
    if get_origin(annotation) is Annotated:
        inner, *notes = get_args(annotation)
        known = next((note for note in notes if isinstance(note, RegisteredName)), None)
        if known is not None:
            return expected(Literal[known.names])
        bounds = _bounds(notes)
        return expected(inner) + (f" {' and '.join(bounds)}" if bounds else "")
    if get_origin(annotation) in (Union, types.UnionType):
        return " or ".join(expected(member) for member in get_args(annotation))
    if get_origin(annotation) is Literal:
        *most, last = [
            value if isinstance(value, str) else str(value)
            for value in get_args(annotation)
        ]
        return f"{', '.join(most)} or {last}" if most else last
    return WORDS.get(annotation) or _compound(annotation)


def _compound(annotation: Any) -> str:
    origin, inner = get_origin(annotation) or annotation, get_args(annotation)
    if is_dataclass(origin):
        return f"a mapping with {', '.join(field.name for field in fields(origin) if field.init)}"
    if not isinstance(origin, type):
        return "another value"
    if issubclass(origin, tuple) and inner and inner[-1] is not Ellipsis:
        if set(inner) == {str}:
            return f"a list of {len(inner)} texts"
        return f"a list of {len(inner)} ({', '.join(expected(item) for item in inner)})"
    if issubclass(origin, Mapping):
        return "a mapping"
    if issubclass(origin, Sequence | set | frozenset):
        if inner[:1] == (str,):
            return "a list of texts"
        return f"a list, each {expected(inner[0])}" if inner else "a list"
    return "a path" if issubclass(origin, Path) else origin.__name__


def _bounds(notes: Sequence[Any]) -> list[str]:
    """The bounds of pydantic's `Field`, which has them in its metadata, or of bare bounds."""
    single = [limit for note in notes for limit in getattr(note, "metadata", [note])]
    named = [
        (word, getattr(limit, name, None))
        for limit in single
        for name, word in (SIGNS | SIZES).items()
    ]
    return [f"{word} {value}" for word, value in named if value is not None]


def valued(annotation: Any, node: Node) -> Any:
    """The plain value of a node for a type; a number of an option as text where a text and no number is expected."""
    kinds = [bare(each) for each in members(annotation)]
    if isinstance(node.value, list):
        items = {
            inner for kind in kinds for inner in get_args(kind) if inner is not Ellipsis
        }
        return [
            valued(next(iter(items)) if len(items) == 1 else Any, each)
            for each in node.value
        ]
    return (
        node.plain()
        if node.line or not is_number_for_text(annotation, node)
        else node.text
    )


def is_number_for_text(annotation: Any, node: Node) -> bool:
    """Whether a value is a number where a text and no number is expected."""
    kinds = {bare(each) for each in members(annotation)}
    number = isinstance(node.value, int | float) and not isinstance(node.value, bool)
    return number and str in kinds and not {int, float} & kinds


def shown(node: Node) -> str:
    """The value as in the file, shortened; text in quotes."""
    if isinstance(node.value, dict):
        return "a mapping" if node.value else "an empty mapping"
    if isinstance(node.value, list):
        text = f"[{', '.join(shown(item) for item in node.value)}]"
    elif node.value is None:
        return "nothing (null)"
    else:
        text = repr(node.value) if isinstance(node.value, str) else node.text
    return text if len(text) <= 60 else f"{text[:57]}..."
