"""The JSON schema of run files, for editors and the documentation."""

from typing import Any

import pydantic
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

Json = dict[str, Any]
CONFIG = pydantic.ConfigDict(
    use_attribute_docstrings=True, arbitrary_types_allowed=True, extra="forbid"
)


class SchemaGenerator(GenerateJsonSchema):
    """A JSON schema in which dataclasses with `named_sizes` have the key `size`."""

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> Json:
        """Return the schema of a dataclass."""
        described = super().dataclass_schema(schema)
        sizes = getattr(schema["cls"], "named_sizes", {})
        if sizes:
            meaning = "Sizes by name; a key beside it wins."
            size = {"description": meaning, "enum": list(sizes)}
            described["properties"]["size"] = size
            described.pop("required", None)
        return described


def describe(annotation: Any) -> Json:
    """Return the JSON schema of a type, with the docstrings of fields."""
    adapter = pydantic.TypeAdapter(annotation, config=CONFIG)
    return adapter.json_schema(schema_generator=SchemaGenerator)
