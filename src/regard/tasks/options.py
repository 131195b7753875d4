"""The options of a run's verbs, each defined once: for Python, for the command line and for the server."""

from dataclasses import fields
from typing import Any


class Options:
    """Frozen dataclasses whose fields are options; a field that keeps its default is the run's own way."""

    def chosen(self) -> dict[str, Any]:
        """The options that differ from their defaults."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        defaults = type(self)()
        return {name: value for name, value in values.items() if value != getattr(defaults, name)}
