"""Experiments: their setting, trained variants, and their results as files."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from regard.errors import InputError
from regard.pictures.chart import Part, png
from regard.runs import load as runs
from regard.runs import run_file
from regard.runs import train as launch
from regard.runs.recipes import path_of
from regard.storage import atomic
from regard.storage.run_folder import RESULT
from regard.training.devices import choose_device

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
        cells = [self.columns, ["---"] * len(self.columns)]
        for row in self.rows:
            cells.append([f"{x:.4g}" if isinstance(x, float) else str(x) for x in row])
        return "\n".join(f"| {' | '.join(line)} |" for line in cells)

    def write(self, folder: Path, name: str) -> list[Path]:
        """Write NAME.md, NAME.json and NAME.png into the folder, which is created.

        Raises:
            InputError: matplotlib is not installed.
            RunError: A file cannot be written.
        """
        records = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        data = json.dumps({"claim": self.claim, "rows": records}, indent=1)
        contents = {
            f"{name}.md": f"# {name}\n\n{self.claim}\n\n{self.table()}\n".encode(),
            f"{name}.json": f"{data}\n".encode(),
            f"{name}.png": png(self.charts),
        }
        for file, content in contents.items():
            atomic.write(folder / file, content)
        return [folder / file for file in contents]


def collect_lines(
    rows: Iterable[Row], x: int, y: int, name: Callable[[Row], str] = lambda row: row[0]
) -> Lines:
    """Return a line of column `y` by column `x` for each name of rows."""
    lines: Lines = {}
    for row in rows:
        point = (float(row[x]), float(row[y]))
        lines.setdefault(name(row), []).append(point)
    return lines


class Variant(NamedTuple):
    """A recipe with other settings.

    Attributes:
        cells: The first cells of its row.
        recipe: The name of the recipe.
        run: The name of the run.
        settings: The settings.
    """

    cells: Row
    recipe: str
    run: str
    settings: Sequence[str]


Measure = Callable[[str, dict[str, Any]], Sequence[Any]]
"""Measures a run, by its name and its metrics."""


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
        if run_file.read(out / runs.CONFIG) != resolved:
            raise InputError(
                f"{out}: holds a run with other settings; remove it, or name another folder "
                "with --out"
            )
        return json.loads(result.read_text(encoding="utf-8"))

    def run(self, name: str) -> Any:
        """Load a trained run."""
        return runs.load(self.folder / name)

    def sweep(
        self,
        variants: Iterable[Variant],
        measure: Measure = lambda run, result: [result["test/exact-match"]],
        steps: Sequence[int] = (),
    ) -> list[Row]:
        """Train each variant, and return its cells, its measures and its seconds.

        Args:
            variants: The variants.
            measure: Measures a run; by default exact match on the test set.
            steps: Numbers of updates; each is a run of its own, and a further cell.
        """
        rows = []
        for variant in variants:
            for count in steps or (None,):
                cells, recipe, name, settings = variant
                if count is not None:
                    cells = (*cells, count)
                    name = f"{name}-{count}"
                    settings = [f"training.steps={count}", *settings]
                result = self.train(recipe, name, settings)
                rows.append((*cells, *measure(name, result), result["seconds"]))
        return rows
