"""Dataclasses as a JSON schema, for editors, for run files with comments and for checks that import no model.

Four keys go beyond the standard: `x-key`, the key that chooses among the alternatives of a union; `x-names`, that its
names are a registry's, to which packages add; `x-sizes`, the named sizes of a dataclass; and `x-recognised`, the kinds
of files by which it is chosen.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from regard.config.expected import bare, members
from regard.config.meanings import meanings
from regard.config.registry import Discriminated, RegisteredName
from regard.config.yaml_file import is_discriminator
from regard.config.yaml_text import plain

DRAFT = "http://json-schema.org/draft-07/schema#"
TYPES = {
    int: "integer",
    float: "number",
    bool: "boolean",
    str: "string",
    type(None): "null",
    Path: "string",
}
BOUNDS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
}
BOUNDS |= {"multiple_of": "multipleOf"}
LENGTHS = {"min_length": "minItems", "max_length": "maxItems"}
Json = dict[str, Any]


def describe(annotation: Any) -> Json:
    """The JSON schema of an annotation, with the dataclasses below it under `definitions`."""
    classes: dict[str, type] = {}
    definitions: dict[str, Json] = {}
    described = _describe(annotation, classes)
    while waiting := [name for name in classes if name not in definitions]:
        for name in waiting:
            definitions[name] = _dataclass(classes[name], classes)
    return {"$schema": DRAFT, **described, "definitions": definitions}


def _describe(annotation: Any, classes: dict[str, type]) -> Json:
    choices = members(annotation)
    named = [
        choice
        for choice in choices
        if dataclasses.is_dataclass(choice) or isinstance(choice, Discriminated)
    ]
    others = [choice for choice in choices if choice not in named]
    found = [
        _leaf(choice, annotation if len(choices) == 1 else choice, classes)
        for choice in others
    ]
    if named:
        found.insert(
            0 if choices[0] is named[0] else len(found), _one_of(named, classes)
        )
    return found[0] if len(found) == 1 else {"anyOf": found}


def _one_of(named: list[Any], classes: dict[str, type]) -> Json:
    """A reference to the only dataclass, or a reference for each value of the key that chooses among several."""
    if isinstance(named[0], Discriminated):
        note = named[0]
        return _chosen(
            note.key, {name: note.choose(name) for name in note.registry}, classes
        ) | {"x-names": True}
    if len(named) == 1:
        return _reference(named[0], classes)
    hints = [get_type_hints(each, include_extras=True) for each in named]
    key = next(
        name
        for name in hints[0]
        if is_discriminator([bare(hint.get(name)) for hint in hints])
    )
    table = {
        value: each
        for each, hint in zip(named, hints, strict=True)
        for value in get_args(bare(hint[key]))
    }
    return _chosen(key, table, classes)


def _chosen(key: str, table: Mapping[str, type], classes: dict[str, type]) -> Json:
    rules = [
        {
            "if": {"properties": {key: {"const": name}}},
            "then": _reference(each, classes),
        }
        for name, each in table.items()
    ]
    return {
        "type": "object",
        "x-key": key,
        "required": [key],
        "properties": {key: {"enum": list(table)}},
        "allOf": rules,
    }


def _reference(schema: type, classes: dict[str, type]) -> Json:
    name = schema.__name__
    if classes.setdefault(name, schema) is not schema:
        name = f"{schema.__module__.split('.')[-2]}.{name}"
        classes[name] = schema
    return {"$ref": f"#/definitions/{name}"}


def _dataclass(schema: type, classes: dict[str, type]) -> Json:
    hints, about = get_type_hints(schema, include_extras=True), meanings(schema)
    fields = [field for field in dataclasses.fields(schema) if field.init]
    properties = {
        field.name: _field(field, hints[field.name], about.get(field.name, ""), classes)
        for field in fields
    }
    required = [
        field.name for field in fields if "default" not in properties[field.name]
    ]
    found: Json = {
        "type": "object",
        "additionalProperties": False,
        "required": required,
        "properties": properties,
    }
    if recognised := getattr(schema, "recognised", ()):
        found["x-recognised"] = list(recognised)
    sizes = getattr(schema, "named_sizes", None)
    if sizes:
        about_size = "Sizes by name; a key beside it wins."
        found |= {
            "x-sizes": {name: dict(values) for name, values in sizes.items()},
            "required": [],
        }
        properties["size"] = {"description": about_size, "enum": list(sizes)}
    return found


def _field(
    field: "dataclasses.Field[Any]",
    annotation: Any,
    about: str,
    classes: dict[str, type],
) -> Json:
    described = _describe(annotation, classes)
    if "$ref" in described:  # keys beside a reference are ignored
        described = {"allOf": [described]}
    found = ({"description": about} if about else {}) | described
    if field.default is not dataclasses.MISSING:
        return found | {"default": plain(field.default)}
    if field.default_factory is not dataclasses.MISSING:
        return found | {"default": plain(field.default_factory())}
    return found


def _leaf(choice: Any, annotation: Any, classes: dict[str, type]) -> Json:
    notes = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    known = next((note for note in notes if isinstance(note, RegisteredName)), None)
    if known is not None:
        return {"enum": list(known.names), "x-names": True}
    if get_origin(choice) is Annotated:
        return _leaf(bare(choice), choice, classes)
    if get_origin(choice) is Literal:
        return {"enum": list(get_args(choice))}
    if choice in TYPES:
        return {"type": TYPES[choice]} | _bounds(notes, BOUNDS)
    return _compound(choice, classes) | _bounds(notes, LENGTHS)


def _compound(choice: Any, classes: dict[str, type]) -> Json:
    origin, inner = get_origin(choice) or choice, get_args(choice)
    if not isinstance(origin, type):
        return {}
    if issubclass(origin, tuple) and inner and inner[-1] is not Ellipsis:
        items = [_describe(each, classes) for each in inner]
        return {
            "type": "array",
            "items": items,
            "minItems": len(items),
            "maxItems": len(items),
        }
    if issubclass(origin, Mapping):
        return {"type": "object"}
    if issubclass(origin, Sequence | set | frozenset):
        return {"type": "array"} | (
            {"items": _describe(inner[0], classes)} if inner else {}
        )
    return {}


def _bounds(notes: Sequence[Any], names: Mapping[str, str]) -> Json:
    single = [limit for note in notes for limit in getattr(note, "metadata", [note])]
    found = [
        (word, getattr(limit, name, None))
        for limit in single
        for name, word in names.items()
    ]
    return {word: value for word, value in found if value is not None}


def written(schema: Json) -> str:
    """A schema as JSON with a line for each property, so that a change is a changed line."""
    head = ",\n".join(
        f" {json.dumps(key)}: {json.dumps(value)}"
        for key, value in schema.items()
        if key != "definitions"
    )
    parts = [
        f"  {json.dumps(name)}: {_lines(each)}"
        for name, each in schema["definitions"].items()
    ]
    return "{\n" + head + ',\n "definitions": {\n' + ",\n".join(parts) + "\n }\n}\n"


def _lines(definition: Json) -> str:
    rest = [
        f"{json.dumps(key)}: {json.dumps(value)}"
        for key, value in definition.items()
        if key != "properties"
    ]
    rows = [
        f"   {json.dumps(name)}: {json.dumps(each)}"
        for name, each in definition["properties"].items()
    ]
    return "{" + ", ".join(rest) + ', "properties": {\n' + ",\n".join(rows) + "}}"
