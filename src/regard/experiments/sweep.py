"""Experiments: their setting, trained variants, and their results as files."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.pictures.canvas import render
from regard.pictures.chart import Chart, Part, charts
from regard.runs import run_file
from regard.runs import train as launch
from regard.runs.recipes import path_of
from regard.storage import atomic
from regard.storage.run_folder import RESULT
from regard.training.settings import choose_device

Row = tuple[Any, ...]
Lines = dict[str, list[tuple[float, float]]]
"""The lines of a chart by name."""


@dataclass(frozen=True)
class Finding:
    """A table and charts about a `claim`."""

    claim: str
    columns: tuple[str, ...]
    rows: Sequence[Row]
    charts: Sequence[Part]

    def table(self) -> str:
        """Return the table in Markdown, with four significant figures."""
        lines = [self.columns, ["---"] * len(self.columns)]
        for row in self.rows:
            cells = [f"{x:.4g}" if isinstance(x, float) else str(x) for x in row]
            lines.append(cells)
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def write(self, folder: Path, name: str) -> list[Path]:
        """Write NAME.md, NAME.json and NAME.png into the folder, which is created.

        Raises:
            InputError: matplotlib is not installed.
            RunError: A file cannot be written.
        """
        claim = self.claim
        records = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        data = json.dumps({"claim": claim, "rows": records}, indent=1)
        page = f"# {name}\n\n{claim}\n\n{self.table()}\n"
        contents = {
            folder / f"{name}.md": page.encode(),
            folder / f"{name}.json": f"{data}\n".encode(),
            folder / f"{name}.png": render(charts(self.charts)),
        }
        for path, content in contents.items():
            atomic.write(path, content)
        return [*contents]


Variants = Mapping[Row, tuple[str, Sequence[str]]]
"""Variants by the first cells of their rows: the recipe and other settings of each."""
Measure = Callable[[Any, dict[str, Any]], Sequence[float]]
"""Measures a loaded run and its metrics."""
MATCH = "exact match, %"


def collect_lines(rows: Iterable[Row], names: int, x: int, y: int) -> Lines:
    """Return a line of column `y` by column `x` for each name, the first `names` cells."""
    lines: Lines = {}
    for row in rows:
        name = ", ".join(map(str, row[:names]))
        lines.setdefault(name, []).append((float(row[x]), float(row[y])))
    return lines


@dataclass(frozen=True)
class Setting:
    """The setting of an experiment.

    Attributes:
        folder: The folder of trained runs, so that an interrupted experiment continues.
        full: Whether to use the long setting.
    """

    folder: Path
    full: bool = False

    def train(self, recipe: str, name: str, settings: Sequence[str]) -> dict[str, Any]:
        """Return the metrics of a run of the recipe, which is trained if it is new.

        Raises:
            InputError: The folder holds a run of this name with other settings.
            RunError: Training failed.
        """
        out = self.folder / name
        config = run_file.read(path_of(recipe), settings)
        result = out / RESULT
        if not result.is_file():
            return launch.train(config, out, resume=out.exists())
        device = choose_device(config.training.device)
        resolved = launch.resolve_precision(config, device)
        if run_file.read(out / run_file.CONFIG) != resolved:
            raise InputError(
                f"{out}: holds a run with other settings; remove it, or name another folder with --out"
            )
        return json.loads(result.read_text(encoding="utf-8"))

    def run(self, name: str) -> Any:
        """Load a trained run."""
        return run_file.load(self.folder / name)

    def sweep(self, variants: Variants, measure: Measure) -> list[Row]:
        """Train each variant, and return its cells, its measures and its seconds."""
        rows = []
        for cells, (recipe, settings) in variants.items():
            parts = map(str, (recipe, *cells))
            name = "-".join(parts).lower()
            name = re.sub(r"\W+", "-", name)
            result = self.train(recipe, name, settings)
            measures = measure(self.run(name), result)
            rows.append((*cells, *measures, result["seconds"]))
        return rows

    def compare(
        self,
        claim: str,
        names: Sequence[str],
        variants: Variants,
        steps: Sequence[int],
        columns: Sequence[str] = (),
        measure: Measure = lambda run, result: (),
    ) -> Finding:
        """Compare variants by the number of updates, each a run of its own.

        Args:
            names: The columns of the variants' cells.
            steps: The numbers of updates.
            columns: The columns of further measures, beside exact match on the test set.
            measure: Measures them.
        """
        trained = {
            (*cells, count): (recipe, [f"training.steps={count}", *settings])
            for cells, (recipe, settings) in variants.items()
            for count in steps
        }
        rows = self.sweep(
            trained,
            lambda run, result: [result["test/exact-match"], *measure(run, result)],
        )
        count = len(names)
        charts = [
            Chart(title, "updates", title, collect_lines(rows, count, count, y))
            for y, title in enumerate((MATCH, *columns), count + 1)
        ]
        columns = (*names, "updates", MATCH, *columns, "seconds")
        return Finding(claim, columns, rows, charts)
