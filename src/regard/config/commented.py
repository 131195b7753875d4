"""A run file with every key: its value, and a comment with its meaning, its type and its default."""

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from regard.config.expected import expected
from regard.config.outline import REFERENCE, Outline
from regard.config.schema import Json
from regard.config.yaml_text import Dumper

WIDTH = 100


def commented(schema: Json, values: Mapping[str, Any]) -> str:
    """The YAML of a run file's values with every other key at its default. A key that must be filled in stands in a
    comment."""
    return "\n".join(Commented(schema).mapping(schema, values, "")) + "\n"


class Commented:
    """The lines of a run file by its schema."""

    def __init__(self, schema: Json) -> None:
        self.definitions, self.outline = schema["definitions"], Outline(schema)

    def mapping(
        self, schema: Json, values: Mapping[str, Any], margin: str
    ) -> Iterator[str]:
        """The lines of a mapping, each key below its comment."""
        definition = self.chosen(schema, values)
        sizes = definition.get("x-sizes", {})
        if sizes and "size" in values:
            values = sizes[values["size"]] | {
                key: each for key, each in values.items() if key != "size"
            }
        for key, part in definition["properties"].items():
            if sizes and key == "size":
                continue
            yield from self.key(
                key, part, values, margin, key in definition.get("required", ())
            )

    def key(
        self,
        key: str,
        part: Json,
        values: Mapping[str, Any],
        margin: str,
        required: bool,
    ) -> Iterator[str]:
        """The lines of a key: its comment, and its value or its keys."""
        value = values.get(key, part.get("default"))
        inner = self.section(part, value)
        yield from comment(self.about(part, required and key not in values), margin)
        if required and key not in values:
            yield f"{margin}# {key}:"
        elif inner is None:
            yield f"{margin}{key}: {flow(value)}"
        else:
            yield f"{margin}{key}:"
            yield from self.mapping(inner, value, f"{margin}  ")
            for line in self.others(inner, value):
                yield from comment(line, f"{margin}  ")

    def about(self, part: Json, missing: bool) -> str:
        """The comment of a key: its meaning, the values that it expects, and its default."""
        union, notes = self.union(part), []
        if union is not None:
            notes.append(
                f"{union['x-key']}: {', '.join(union['properties'][union['x-key']]['enum'])}"
            )
        elif not self.is_section(part) and len(part.get("enum", "two")) > 1:
            notes.append(self.expected(part))
            notes += [f"default: {flow(part['default'])}"] if "default" in part else []
        notes += ["must be filled in"] if missing else []
        return " ".join(
            [part.get("description", ""), *([f"({'; '.join(notes)})"] if notes else [])]
        ).strip()

    def others(self, schema: Json, values: Mapping[str, Any]) -> Iterator[str]:
        """The keys of the other kinds of data."""
        if schema.get("x-key") != "kind":
            return
        for name in schema["properties"]["kind"]["enum"]:
            if name != values["kind"]:
                keys = self.chosen(schema, {**values, "kind": name})["properties"]
                yield f"With kind: {name} the keys are {', '.join(key for key in keys if key != 'kind')}."

    def expected(self, part: Json) -> str:
        """The values that a key expects, in words."""
        return expected(self.outline.annotation(part))

    def chosen(self, schema: Json, values: Mapping[str, Any]) -> Json:
        """The definition of a mapping: the only one, or the one that its key chooses."""
        if "x-key" in schema:
            name = values[schema["x-key"]]
            found = next(
                each["then"]
                for each in schema["allOf"]
                if each["if"]["properties"][schema["x-key"]]["const"] == name
            )
            return self.chosen(found, values)
        return self.definitions[schema["$ref"].removeprefix(REFERENCE)]

    def section(self, part: Json, value: Any) -> Json | None:
        """The schema of the keys below a value; None for a value of its own."""
        if not isinstance(value, dict) or not value:
            return None
        for each in alternatives(part):
            if "x-key" in each or "$ref" in each:
                return each
        return None

    def union(self, part: Json) -> Json | None:
        """The alternatives of a section that a key chooses, if it has some."""
        found = [each for each in alternatives(part) if "x-key" in each]
        return (
            found[0]
            if found and len(alternatives(part)) <= 2 and self.is_section(part)
            else None
        )

    def is_section(self, part: Json) -> bool:
        """Whether a key has keys below it, or null."""
        return all(
            "x-key" in each or "$ref" in each or each.get("type") == "null"
            for each in alternatives(part)
        )


def alternatives(part: Json) -> list[Json]:
    """The alternatives of a part of a schema, without the wrapper of a reference."""
    if "x-key" in part or "$ref" in part:
        return [part]
    inner = part.get("anyOf") or part.get("allOf")
    return [each for one in inner for each in alternatives(one)] if inner else [part]


def comment(text: str, margin: str) -> Iterator[str]:
    """A text as lines of a comment."""
    for line in textwrap.wrap(
        text, WIDTH - len(margin) - 2, break_long_words=False, break_on_hyphens=False
    ):
        yield f"{margin}# {line}"


def flow(value: Any) -> str:
    """A value on one line of YAML."""
    text = yaml.dump(
        value,
        Dumper=Dumper,
        default_flow_style=True,
        sort_keys=False,
        allow_unicode=True,
        width=1 << 20,
    )
    return text.removesuffix("\n").removesuffix("\n...")
