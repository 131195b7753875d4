"""A Sphinx extension: the table of aims of speed on the page `speed`, from the results of `make bench`."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

from sphinx.application import Sphinx

from benchmarks.aim import COLUMNS, Aim
from benchmarks.report import RESULTS

PAGE = "speed"


def tables(results: dict[str, Any]) -> str:
    """Return the machine and the versions, the number of aims that are met, and a table for each kind of work."""
    names = [each.name for each in fields(Aim)]
    aims = [Aim(**{name: row[name] for name in names}) for row in results["rows"]]
    met, conditions = sum(each.met for each in aims), results["conditions"]
    machine = f"{conditions['cores']} cores, {conditions['system']}, {conditions['instructions']}"
    versions = ", ".join(f"{name} {conditions[name]}" for name in ("regard", "torch", "python"))
    return "\n\n".join([f"{met} of {len(aims)} aims are met on {machine}, with {versions}.", *sections(aims)])


def sections(aims: Sequence[Aim]) -> Iterator[str]:
    """Return a heading for each kind of work, which a row's name begins with, and its table."""
    kinds: dict[str, list[Aim]] = {}
    for each in aims:
        kind, _, what = each.what.partition(", ")
        kinds.setdefault(kind, []).append(replace(each, what=what))
    for kind, some in kinds.items():
        rows = [COLUMNS, ["---"] * len(COLUMNS), *(each.cells() for each in some)]
        yield f"## {kind.capitalize()}"
        yield "\n".join(f"| {' | '.join(row)} |" for row in rows)


def read(app: Sphinx, page: str, content: list[str]) -> None:
    """Sphinx's event for the source of a page."""
    if page == PAGE:
        found = json.loads((RESULTS / "aims.json").read_text(encoding="utf-8"))
        content[0] = f"{content[0].rstrip()}\n\n{tables(found)}\n"


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the event."""
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
