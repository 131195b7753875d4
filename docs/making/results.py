"""A Sphinx extension: the chart, the summary and every run on the pages of results, from the CSV files in `results`."""

import csv
import re
from collections.abc import Sequence
from pathlib import Path

from sphinx.application import Sphinx

from regard.pictures.write import write_figure

FOLDER = Path(__file__).resolve().parents[1] / "results"
CHART = Path("_build") / "pictures" / "results" / "chart.png"
MARKS = (("simple rule", "D", "#8a8a8a"), ("best at that size", "o", "#d1700f"), ("regard", "s", "#1f6feb"))
"""Column, marker and color of each series of the chart; the last one is on top."""


def read_rows(name: str) -> list[dict[str, str]]:
    """Return the rows of a CSV file. A cell `the same` has the value of the row above."""
    rows: list[dict[str, str]] = []
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            rows.append({key: rows[-1][key] if cell == "the same" else cell for key, cell in row.items()})
    return rows


def make_summary(rows: Sequence[dict[str, str]]) -> str:
    """Return the chart and a table with one row per task and data set."""
    columns = ("task", "data", "metric", "regard", "best at that size", "simple rule", "minutes")
    lines = [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]
    for row in rows:
        linked = {"task": f"[{row['task']}](/{row['page']}.md)"}
        linked["regard"] = f"[**{row['regard']}**](/results/all.md#{row['recipe']})"
        lines.append(f"| {' | '.join(linked.get(column, row[column]) for column in columns)} |")
    alternative = "Scores of regard, of the best comparable result and of a simple rule, by task"
    return f"![{alternative}](/{CHART.as_posix()}){{width=760px}}\n\n" + "\n".join(lines)


def draw_chart(rows: Sequence[dict[str, str]], path: Path) -> None:
    """Draw the rows whose metric is between 0 and 100, higher is better."""
    from matplotlib.figure import Figure

    shown = [row for row in rows if row["scale"]][::-1]
    figure = Figure(figsize=(7.6, 0.36 * len(shown) + 0.9), layout="constrained")
    axes = figure.subplots()
    for label, marker, color in MARKS:
        found = ((re.search(r"\d*\.?\d+", row[label]), row["scale"], at) for at, row in enumerate(shown))
        points = [(float(number[0]) * float(scale), at) for number, scale, at in found if number]
        axes.scatter(*zip(*points, strict=True), marker=marker, color=color, label=label, s=44, zorder=3)
    axes.set_yticks(range(len(shown)), [f"{row['task']} ({row['metric']})" for row in shown], fontsize=9)
    axes.set_xlim(0, 101.5)
    axes.grid(axis="x", color="#dddddd")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper right", ncols=3, frameon=False, fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_figure(figure, path)


def make_runs(rows: Sequence[dict[str, str]]) -> str:
    """Return every run as a list, below a heading for its recipe."""
    parts, heading = [], ""
    for row in rows:
        recipe = row["recipe"].split("`")[1]
        if recipe != heading:
            heading = recipe
            parts.append(f"## {recipe}\n")
        size = f"seed {row['seed']}; {row['seconds']} seconds; {row['parameters']} parameters"
        variant = row["recipe"].removeprefix(f"`{recipe}`").strip(", ")
        parts.append(
            f"**{row['data'][:1].upper()}{row['data'][1:]}**{': ' if variant else ''}{variant}\n\n"
            f"- Result: {row['figure']}\n- Compare: {row['best published at that size']}\n"
            f"- Command: {row['command']}\n- {size[0].upper()}{size[1:]}\n"
        )
    return "\n".join(parts)


def append(app: Sphinx, page: str, content: list[str]) -> None:
    """Put the chart and the tables on their pages."""
    if page == "results":
        rows = read_rows("summary")
        draw_chart(rows, Path(app.srcdir) / CHART)
        content[0] = content[0].replace("%summary%", make_summary(rows))
    elif page == "results/all":
        content[0] += "\n" + make_runs(read_rows("all"))


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect this extension to Sphinx."""
    app.connect("source-read", append)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
