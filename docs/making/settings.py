"""A Sphinx extension: the tables of every key of a run file, from the stored schema, in the page `guide/settings`."""

from typing import Any

from sphinx.application import Sphinx

from regard.config.commented import Commented, flow
from regard.config.schema import Json
from regard.runs import keys

PAGE = "guide/settings"


def tables(schema: Json) -> str:
    """A section with a table for each definition, in the order of the schema."""
    writer = Commented(schema)
    return "\n".join(section(name, each, writer) for name, each in schema["definitions"].items())


def section(name: str, definition: Json, writer: Commented) -> str:
    """The keys of a definition with their meaning, the values that they expect, and their defaults."""
    rows = [
        (f"`{key}`", part.get("description", ""), expected(part, writer), default(part))
        for key, part in definition["properties"].items()
    ]
    lines = ["| key | meaning | expected | default |", "| --- | --- | --- | --- |"]
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return f"## {name}\n\n" + "\n".join(lines) + "\n"


def expected(part: Json, writer: Commented) -> str:
    """The values of a key in words; of a section the names that choose it."""
    union = writer.union(part)
    if union is not None:
        key = union["x-key"]
        return f"`{key}`: {', '.join(union['properties'][key]['enum'])}"
    return "a section" if writer.is_section(part) else writer.expected(part)


def default(part: Json) -> str:
    """The default of a key as YAML; of a section nothing, whose keys have their own."""
    if "default" not in part:
        return "required"
    return "" if isinstance(part["default"], dict) else f"`{flow(part['default'])}`"


def append(app: Sphinx, page: str, content: list[str]) -> None:
    """Append the tables to the text of the page."""
    if page == PAGE:
        content[0] += "\n" + tables(keys.stored())


def setup(app: Sphinx) -> dict[str, Any]:
    """What Sphinx calls."""
    app.connect("source-read", append)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
