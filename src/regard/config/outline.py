"""The dataclasses of a JSON schema without the code behind them, to check a run file before a model is imported."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal

from pydantic import Field

from regard.config.registry import Discriminated
from regard.config.schema import BOUNDS, LENGTHS, Json

TYPES = {
    "integer": int,
    "number": float,
    "boolean": bool,
    "string": str,
    "null": type(None),
    "object": Mapping[str, Any],
}
REFERENCE = "#/definitions/"


class Outline:
    """The types of a schema. `yaml_file.check` finds the same mistakes with them as with the real dataclasses, save
    those of rules between fields."""

    def __init__(self, schema: Json) -> None:
        self.schema = schema
        self._classes: dict[str, type] = {}

    @property
    def root(self) -> Any:
        """The type of the whole file."""
        return self.annotation(self.schema)

    def annotation(self, schema: Json) -> Any:
        """The type that a part of the schema describes."""
        if "$ref" in schema:
            return self.dataclass(schema["$ref"].removeprefix(REFERENCE))
        if "x-key" in schema:
            return self._union(schema)
        if "allOf" in schema:
            return self.annotation(schema["allOf"][0])
        if "anyOf" in schema:
            return reduce(or_, (self.annotation(each) for each in schema["anyOf"]))
        if "enum" in schema:
            return Literal[tuple(schema["enum"])]
        if schema.get("type") == "array":
            return _bounded(self._array(schema), schema, LENGTHS)
        return (
            _bounded(TYPES[schema["type"]], schema, BOUNDS) if "type" in schema else Any
        )

    def dataclass(self, name: str) -> type:
        """The dataclass of a definition. Fields with a default have it; it may be a list or mapping, never used."""
        if name not in self._classes:
            self._classes[name] = self._new(name, self.schema["definitions"][name])
        return self._classes[name]

    def _new(self, name: str, definition: Json) -> type:
        sizes = definition.get("x-sizes")
        properties = {
            key: each
            for key, each in definition["properties"].items()
            if not (sizes and key == "size")
        }
        fields = [
            (
                key,
                self.annotation(each),
                dataclasses.field(
                    default=None if "default" in each else dataclasses.MISSING
                ),
            )
            for key, each in properties.items()
        ]
        name = name.rpartition(".")[2]
        namespace = {
            "named_sizes": sizes or {},
            "recognised": tuple(definition.get("x-recognised", ())),
        }
        return dataclasses.make_dataclass(
            name, fields, kw_only=True, namespace=namespace
        )

    def _union(self, schema: Json) -> Any:
        parts = {
            rule["if"]["properties"][schema["x-key"]]["const"]: rule["then"]
            for rule in schema["allOf"]
        }
        if "x-names" in schema:
            table = Table({name: self._later(part) for name, part in parts.items()})
            return Annotated[Any, Discriminated(schema["x-key"], table)]
        return reduce(or_, (self.annotation(part) for part in parts.values()))

    def _later(self, part: Json) -> Callable[[], Any]:
        return lambda: self.annotation(part)

    def _array(self, schema: Json) -> Any:
        items = schema.get("items", {})
        if isinstance(items, list):
            return tuple[tuple(self.annotation(each) for each in items)]
        return tuple[(self.annotation(items), ...)]


class Table(Mapping[str, Any]):
    """Types by name, each made on use: a run file names few of them."""

    def __init__(self, parts: Mapping[str, Callable[[], Any]]) -> None:
        self.parts = parts

    def __getitem__(self, name: str) -> Any:
        return self.parts[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)


def _bounded(kind: Any, schema: Json, names: Mapping[str, str]) -> Any:
    """The type with the bounds of the schema. A list of fixed length has none."""
    bounds = {name: schema[word] for name, word in names.items() if word in schema}
    return (
        kind
        if not bounds or isinstance(schema.get("items"), list)
        else Annotated[kind, Field(**bounds)]
    )
