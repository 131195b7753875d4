"""A Sphinx extension: the table of aims of speed on the page `speed`, from the results of `make bench`."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

from sphinx.application import Sphinx

from benchmarks.aim import Aim
from benchmarks.report import RESULTS

PAGE = "speed"


def read_results() -> list[dict[str, Any]]:
    """Return the results of each set of instructions, the widest first."""
    paths = sorted(RESULTS.glob("aims-*.json"), reverse=True)
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths]


def tables(results: Sequence[dict[str, Any]]) -> str:
    """Return a line on each machine, and a table for each kind of work with columns for each of them."""
    lines, measured = [], dict[str, list[tuple[str, Aim]]]()
    names = [each.name for each in fields(Aim)]
    for result in results:
        conditions = result["conditions"]
        aims = [Aim(**{name: row[name] for name in names}) for row in result["rows"]]
        machine = f"{conditions['processor']} with {conditions['instructions']}, {conditions['cores']} cores"
        versions = ", ".join(f"{name} {conditions[name]}" for name in ("regard", "torch", "python"))
        lines.append(f"{sum(each.met for each in aims)} of {len(aims)} aims are met on {machine} ({versions}).")
        for each in aims:
            measured.setdefault(f"{each.what}\n{each.peer}", []).append((conditions["instructions"], each))
    instructions = [result["conditions"]["instructions"] for result in results]
    return "\n\n".join([*lines, *sections(list(measured.values()), instructions)])


def sections(rows: Sequence[Sequence[tuple[str, Aim]]], instructions: Sequence[str]) -> Iterator[str]:
    """Return a heading for each kind of work, which a row's name begins with, and its table."""
    columns = [f"{names}, {column}" for names in instructions for column in ("ours", "peer's / ours", "met")]
    head = ["work", "peer", "aim", *columns, "limited by"]
    kinds: dict[str, list[list[str]]] = {}
    for row in rows:
        first = row[0][1]
        kind, _, what = first.what.partition(", ")
        cells = [what, first.peer, first.limit]
        for names in instructions:
            found = [each for other, each in row if other == names]
            cells += columns_of(found[0]) if found else ("", "", "")
        cells.append(next((each.limited_by for _, each in row if each.limited_by), ""))
        kinds.setdefault(kind, []).append(cells)
    for kind, lines in kinds.items():
        yield f"## {kind.capitalize()}"
        yield "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *lines))


def columns_of(aim: Aim) -> tuple[str, str, str]:
    """Return the cells of one machine."""
    ratio = "" if aim.ratio is None else f"{aim.ratio:.2f}"
    return f"{aim.ours:.3g} {aim.unit}", ratio, "yes" if aim.met else "NO"


def read(app: Sphinx, page: str, content: list[str]) -> None:
    """Sphinx's event for the source of a page."""
    if page == PAGE:
        content[0] = f"{content[0].rstrip()}\n\n{tables(read_results())}\n"


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the event."""
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
