"""Experiments: their setting, trained variants, and their results as files."""

import json
from collections.abc import Iterator, Mapping, Sequence
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


@dataclass(frozen=True)
class Finding:
    """A table and charts about a `claim`."""

    claim: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]
    charts: Sequence[Part]

    def table(self) -> str:
        """Return the table in Markdown."""
        cells = [
            self.columns,
            ["---"] * len(self.columns),
            *(map(format_cell, row) for row in self.rows),
        ]
        return "\n".join(f"| {' | '.join(row)} |" for row in cells)

    def write(self, folder: Path, name: str) -> list[Path]:
        """Write NAME.md, NAME.json and NAME.png into the folder, which is created.

        Raises:
            InputError: the folder is a file, or matplotlib is not installed.
            RunError: a file cannot be written.
        """
        if folder.exists() and not folder.is_dir():
            raise InputError(
                f"{folder}: is not a folder; name one to write the table and the picture to"
            )
        records = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        contents = {
            ".md": f"# {name}\n\n{self.claim}\n\n{self.table()}\n".encode(),
            ".json": (
                json.dumps({"claim": self.claim, "rows": records}, indent=1) + "\n"
            ).encode(),
            ".png": png(self.charts),
        }
        for ending, content in contents.items():
            atomic.write(folder / f"{name}{ending}", content)
        return [folder / f"{name}{ending}" for ending in contents]


def format_cell(value: Any) -> str:
    """Format a cell; numbers have four significant figures."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Setting:
    """The setting of an experiment.

    folder: the folder of trained runs, so that an interrupted experiment continues.
    full: whether to use the long setting.
    text: two files, aligned by line, for experiments on the user's text."""

    folder: Path
    full: bool = False
    text: tuple[Path, Path] | None = None

    def train(self, recipe: str, name: str, overrides: Sequence[str]) -> dict[str, Any]:
        """Return the metrics of a run of the recipe, which is trained if it is new.

        Raises:
            InputError: The folder holds a run of this name with other settings.
            RunError: Training failed.
        """
        out, config = self.folder / name, run_file.read(path_of(recipe), overrides)
        if not (out / RESULT).is_file():
            return launch.train(config, out, resume=out.exists())
        if run_file.read(out / runs.CONFIG) != launch.resolve_precision(
            config, choose_device(config.training.device)
        ):
            raise InputError(
                f"{out}: holds a run with other settings; remove it, or name another folder with --out"
            )
        return json.loads((out / RESULT).read_text(encoding="utf-8"))

    def run(self, name: str) -> Any:
        """Load a trained run."""
        return runs.load(self.folder / name)


Lines = dict[str, list[tuple[float, float]]]
"""The lines of a chart by name."""


class Variant(NamedTuple):
    """A recipe with other settings; its runs are named `name` and the updates."""

    recipe: str
    name: str
    overrides: Sequence[str]


class Trained(NamedTuple):
    """A trained run of a variant, its number of updates, and its metrics."""

    variant: str
    updates: int
    run: str
    result: dict[str, Any]


def sweep(
    setting: Setting, variants: Mapping[str, Variant], steps: Sequence[int]
) -> Iterator[Trained]:
    """Train each variant with each number of updates."""
    for key, variant in variants.items():
        for count in steps:
            run = f"{variant.name}-{count}"
            overrides = [f"training.steps={count}", *variant.overrides]
            result = setting.train(variant.recipe, run, overrides)
            yield Trained(key, count, run, result)
