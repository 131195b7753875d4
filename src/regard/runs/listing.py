"""The runs of a folder, each in short."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pydantic

from regard.config import yaml_tree
from regard.errors import InputError
from regard.runs.run_file import CONFIG
from regard.storage.run_folder import (
    ABOUT_TRAINING,
    METRICS,
    RESULT,
    RunDirectory,
    is_run,
)
from regard.storage.verified_files import CHANGED, MANIFEST

Values = dict[str, Any]


@dataclass(frozen=True)
class RunSummary:
    """A run in short.

    Attributes:
        run: Its folder.
        task: The name of its task in the run file.
        model: The name of its model.
        steps: The updates of its training so far.
        planned: The updates that its run file plans.
        figures: Its metrics as `test/...` and `valid/...`; unfinished, of the last
            validation.
        finished: Whether its training has ended.
        parameters: The number of its parameters; None before its training has ended.
        date: When it was last written, in seconds since 1970.
        size: The bytes of its files.
    """

    run: str
    task: str
    model: str
    steps: int
    planned: int
    figures: Mapping[str, float]
    finished: bool
    parameters: int | None
    date: float
    size: int

    @property
    def figure(self) -> tuple[str, float] | None:
        """The first metric of the test set, else of the validation set, if any."""
        names = sorted(self.figures, key=lambda name: not name.startswith("test/"))
        return (names[0], self.figures[names[0]]) if names else None

    @property
    def progress(self) -> str:
        """The updates, and how many are planned if it is unfinished."""
        planned = "" if self.finished else f" of {self.planned:,}"
        return f"{self.steps:,}{planned}"

    @property
    def written(self) -> str:
        """The date and time."""
        return datetime.fromtimestamp(self.date).strftime("%Y-%m-%d %H:%M")

    def to_json(self) -> Values:
        """Return plain values for JSON, with the date as text."""
        return asdict(self) | {"date": self.written}


def read_record(folder: Path) -> RunSummary:
    """Read the run in a folder.

    Raises:
        InputError: The folder is not a run, or a file is damaged.
    """
    run = RunDirectory.open(folder)
    config = read_settings(run) if run.has(CONFIG) else {}
    sections = (config.get(name) for name in ("model", "training"))
    model, training = (
        values if isinstance(values, dict) else {} for values in sections
    )
    result = run.read_object(RESULT) if run.has(RESULT) else {}
    steps = 0
    figures = {}
    for kind, update, values in read_log(run):
        steps = max(steps, update)
        if kind == "validation":  # the last one counts
            figures = {
                f"valid/{name}": value
                for name, value in values.items()
                if value is not None
            }
    final = {name: result[name] for name in result if name not in ABOUT_TRAINING}
    for name, value in result.items():
        if not isinstance(value, int | float):
            raise InputError(f"{folder / RESULT}: {name} is not a number, {CHANGED}")
    stats = [entry.stat() for entry in folder.rglob("*") if entry.is_file()]
    return RunSummary(
        run=str(folder),
        task=str(config.get("task", "(none)")),
        model=str(model.get("name", "(none)")),
        steps=int(result.get("steps") or steps),
        planned=training.get("steps", 0),
        figures=final or figures,
        finished=bool(result),
        parameters=result.get("parameters"),
        date=max((stat.st_mtime for stat in stats), default=0.0),
        size=sum(stat.st_size for stat in stats),
    )


def read_settings(run: RunDirectory) -> Values:
    """Return the run file as plain values; its task need not be installed."""
    root = yaml_tree.read(run.file(CONFIG))
    return root.plain() if isinstance(root.value, dict) else {}


Entry = tuple[str, int, dict[str, float | None]]
"""A line of the log of training: its kind, the update and the figures."""
ENTRY = pydantic.TypeAdapter(Entry)


def read_log(run: RunDirectory) -> list[Entry]:
    """Return the log of a run's training; none without a log.

    Raises:
        InputError: A line is not an entry.
    """
    entries = []
    records = run.read_jsonl(METRICS) if run.has(METRICS) else []
    for number, record in enumerate(records, 1):
        try:
            values = (record.pop("kind", None), record.pop("update", None), record)
            entries.append(ENTRY.validate_python(values, strict=True))
        except pydantic.ValidationError as error:
            raise InputError(
                f"{run.path / METRICS}:{number}: has no kind, update and figures; "
                "remove the line"
            ) from error
    return entries


def list_runs(folder: Path) -> list[RunSummary]:
    """Return the runs in a folder and below it.

    Raises:
        InputError: There are none.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; expected a folder of runs")
    paths = [path.parent for path in sorted(folder.rglob(MANIFEST))]
    records = [read_record(path) for path in paths if is_run(path)]
    if not records:
        raise InputError(
            f"{folder}: has no runs; `regard train RECIPE` makes one in runs/"
        )
    return records
