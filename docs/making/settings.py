"""A Sphinx extension: a page per task with every key of its run files, which the page `guide/settings` lists."""

from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import yaml
from sphinx.application import Sphinx
from sphinx.config import Config

from docs.making.meanings import MEANINGS
from regard.config.yaml_tree import Dumper
from regard.runs.run_file import make_schema

Json = dict[str, Any]
FOLDER = "reference/settings"
"""Below the sources; the folder `reference` is not kept."""
GROUPS = {"task": "Run file", "data": "Data", "model": "Models"}
"""The headings of the sections below a key of a run file."""
OTHERS = "Further sections"
NAMES = ("task", "kind", "name")
"""The keys that choose among sections."""
REFERENCE = "#/$defs/"
BOUNDS = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
TYPES = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "string": "text",
    "null": "null",
    "object": "a mapping",
}


def make_pages(schema: Json) -> dict[str, str]:
    """Return a page for each task, by the task's name, and one for the sections of most tasks."""
    titles = find_titles(schema)
    tasks = {name: find_sections(schema, name) for name, (_, title) in titles.items() if title.startswith("`task: ")}
    counts = Counter(name for sections in tasks.values() for name in sections)
    shared = [name for name in titles if counts[name] > len(tasks) // 3]
    pages = {"shared": "# Settings that tasks share\n\n" + make_tables(schema, shared)}
    for task, sections in tasks.items():
        name = titles[task][1].strip("`").removeprefix("task: ")
        particular = [section for section in titles if section in sections and section not in shared]
        link = "Sections that most tasks share, such as `training`, are on [a separate page](shared.md)."
        pages[name] = f"# Settings: {name}\n\n{link}\n\n" + make_tables(schema, particular)
    return pages


def find_sections(schema: Json, name: str) -> set[str]:
    """Return a section and all that it may contain."""
    found, waiting = set[str](), [name]
    while waiting:
        if (section := waiting.pop()) not in found:
            found.add(section)
            for part in schema["$defs"][section]["properties"].values():
                waiting += find_references(part)
    return found


def make_tables(schema: Json, names: Collection[str]) -> str:
    """Return a heading for each group of sections, with a table for each of the named sections."""
    groups: dict[str, list[str]] = {group: [] for group in (*GROUPS.values(), OTHERS)}
    for name, (key, title) in find_titles(schema).items():
        if name in names:
            groups[GROUPS.get(key, OTHERS)].append(make_table(title, schema["$defs"][name]))
    return "\n".join(f"## {group}\n\n" + "\n".join(tables) for group, tables in groups.items() if tables)


def find_titles(schema: Json) -> dict[str, tuple[str, str]]:
    """Return for each section the key above it, and the line that chooses it there."""
    keys = dict.fromkeys(find_references(schema), "task")
    for section in schema["$defs"].values():
        for key, part in section["properties"].items():
            for name in find_references(part):
                keys.setdefault(name, key)
    titles = {}
    for name, key in keys.items():
        properties = schema["$defs"][name]["properties"]
        title = f"`{key}`"
        for choice in NAMES:
            if "const" in properties.get(choice, {}):
                path = choice if key == choice else f"{key}.{choice}"
                title = f"`{path}: {properties[choice]['const']}`"
        if title in [other for _, other in titles.values()]:
            title += f" ({name.rpartition('__')[2]})"
        titles[name] = key, title
    return titles


def find_references(part: Json) -> Iterator[str]:
    """Yield the sections that a value may be."""
    if "$ref" in part:
        yield part["$ref"].removeprefix(REFERENCE)
    for alternative in (*part.get("oneOf", ()), *part.get("anyOf", ()), *part.get("allOf", ())):
        yield from find_references(alternative)


def make_table(title: str, section: Json) -> str:
    """Return the keys of a section with their meaning, values and defaults."""
    lines = ["| key | meaning | expected | default |", "| --- | --- | --- | --- |"]
    for key, part in section["properties"].items():
        meaning = " ".join(part.get("description", MEANINGS.get(key, "")).split())
        default = "required" if key in section.get("required", ()) else describe_default(part)
        cells = [f"`{key}`", meaning, describe_values(part), default]
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return f"### {title}\n\n" + "\n".join(lines) + "\n"


def describe_values(part: Json) -> str:
    """Return the values of a key in words."""
    alternatives = part.get("anyOf") or part.get("oneOf") or part.get("allOf")
    if alternatives:
        return " or ".join(dict.fromkeys(map(describe_values, alternatives)))
    if "$ref" in part:
        return "a section"
    if "const" in part or "enum" in part:
        return ", ".join(map(str, part.get("enum", [part.get("const")])))
    if part.get("type") == "array":
        items = part.get("items") or {}
        return f"a list, each {describe_values(items)}" if items else "a list"
    bounds = [f"{sign} {part[name]}" for name, sign in BOUNDS.items() if name in part]
    return " ".join([TYPES.get(part.get("type", ""), "a value"), " and ".join(bounds)]).strip()


def describe_default(part: Json) -> str:
    """Return the default of a key as YAML; nothing for a section, whose keys have theirs."""
    default = part.get("default")
    if isinstance(default, dict) or "default" not in part:
        return ""
    text = yaml.dump(default, Dumper=Dumper, default_flow_style=True, allow_unicode=True, width=1 << 20)
    return f"`{text.removesuffix(chr(10)).removesuffix(chr(10) + '...')}`"


def write_pages(app: Sphinx, config: Config) -> None:
    """Write the pages before Sphinx looks for sources."""
    folder = Path(app.srcdir) / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in make_pages(make_schema()).items():
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the extension to Sphinx."""
    app.connect("config-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
