"""A Sphinx extension: the tables of every key of a run file, from the stored schema, in the page `guide/settings`."""

from collections.abc import Iterator
from typing import Any

from sphinx.application import Sphinx

from regard.config.commented import Commented, alternatives, flow
from regard.config.outline import REFERENCE
from regard.config.schema import Json
from regard.runs import keys

PAGE = "guide/settings"


GROUPS = {"task": "Tasks", "data": "Data", "model": "Models"}
"""The headings of the sections that a key of a run file chooses, by that section."""
OTHERS, SHARED = "Further sections", 7
"""The heading of the others; of how many tasks a heading names."""


def tables(schema: Json) -> str:
    """A heading for tasks, for data, for models and for further sections; below it a table for each, in the order of
    the schema."""
    writer, titles = Commented(schema), titles_of(schema)
    groups: dict[str, list[str]] = {group: [] for group in (*GROUPS.values(), OTHERS)}
    for name, each in schema["definitions"].items():
        key, title = titles[name]
        groups[GROUPS.get(key, OTHERS)].append(section(title, each, writer))
    return "\n".join(f"## {group}\n\n" + "\n".join(parts) for group, parts in groups.items())


def titles_of(schema: Json) -> dict[str, tuple[str, str]]:
    """For each definition the key of a run file below which it stands, and the line that chooses it there; for a
    section that only one task has, its task."""
    lines: dict[str, tuple[str, str]] = {}
    tasks: dict[str, set[str]] = {}
    owners = [("", {"task": schema})] + [
        (each["properties"].get("task", {}).get("enum", [""])[0], each["properties"])
        for each in schema["definitions"].values()
    ]
    for task, properties in owners:
        for key, part in properties.items():
            for name, line in chosen(key, part):
                lines.setdefault(name, (key, line))
                tasks.setdefault(name, set()).update({task} - {""})
    own = {
        name: f" of {', '.join(f'`{task}`' for task in sorted(some))}"
        for name, some in tasks.items()
        if 0 < len(some) <= SHARED
    }
    return {
        name: (key, line + own.get(name, "") if line == f"`{key}`" else line) for name, (key, line) in lines.items()
    }


def chosen(key: str, part: Json) -> Iterator[tuple[str, str]]:
    """The definitions below a key, each with the line that chooses it."""
    for each in alternatives(part):
        for one in each.get("allOf", ()) if "x-key" in each else ():
            name = one["if"]["properties"][each["x-key"]]["const"]
            below = each["x-key"] if key == each["x-key"] else f"{key}.{each['x-key']}"
            yield one["then"]["$ref"].removeprefix(REFERENCE), f"`{below}: {name}`"
        if "$ref" in each:
            yield each["$ref"].removeprefix(REFERENCE), f"`{key}`"


def section(title: str, definition: Json, writer: Commented) -> str:
    """The keys of a definition with their meaning, the values that they expect, and their defaults."""
    rows = [
        (f"`{key}`", part.get("description", ""), expected(part, writer), default(part))
        for key, part in definition["properties"].items()
    ]
    lines = ["| key | meaning | expected | default |", "| --- | --- | --- | --- |"]
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return f"### {title}\n\n" + "\n".join(lines) + "\n"


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
