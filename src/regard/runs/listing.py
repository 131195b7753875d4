"""The runs of a folder: what each one is, how two differ, and the curves of several."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from regard.config import yaml_tree
from regard.errors import InputError
from regard.pictures.chart import Chart, charts
from regard.pictures.write import write_figure
from regard.runs.load import CONFIG
from regard.runs.resume import ABSENT, compare
from regard.storage import manifest
from regard.storage.manifest import CHANGED
from regard.storage.run_folder import ABOUT_TRAINING, METRICS, RESULT, RunDirectory

TRAINING, VALIDATION = "training", "validation"


@dataclass(frozen=True)
class Record:
    """A run in short."""

    run: str
    """Its folder."""
    task: str
    """The name of its task in the run file."""
    model: str
    steps: int
    """The updates of its training so far."""
    planned: int
    """The updates that its run file plans."""
    figures: Mapping[str, float]
    """Its metrics as `test/...` and `valid/...`; unfinished, of the last validation."""
    finished: bool
    """Whether its training has ended."""
    parameters: int | None
    """The number of its parameters; None before its training has ended."""
    date: float
    """When it was last written, in seconds since 1970."""
    size: int
    """The bytes of its files."""

    @property
    def figure(self) -> tuple[str, float] | None:
        """The first metric of the test set, else of the validation set, if there is one."""
        names = sorted(self.figures, key=lambda name: not name.startswith("test/"))
        return (names[0], self.figures[names[0]]) if names else None

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON, with the date as text."""
        return asdict(self) | {"figures": dict(self.figures), "date": self.written}

    @property
    def written(self) -> str:
        """The date and time."""
        return datetime.fromtimestamp(self.date).strftime("%Y-%m-%d %H:%M")

    def value(self, key: str) -> Any:
        """Return what a list is sorted by: a field, `figure`, or the name of a metric.

        None where the run has none.

        Raises:
            KeyError: there is no such key.
        """
        if key == "figure":
            return None if self.figure is None else self.figure[1]
        return self.figures[key] if key in self.figures else asdict(self)[key]


def read_record(folder: Path) -> Record:
    """Return the run in a folder.

    Raises InputError for a folder that is no run, and for a damaged file.
    """
    run = RunDirectory.open(folder)
    config = read_settings(run) if run.has(CONFIG) else {}
    logs_by_run = _read_log(run)
    result = _result(run)
    files = [entry for entry in folder.rglob("*") if entry.is_file()]
    return Record(
        run=str(folder),
        task=str(config.get("task", ABSENT)),
        model=str(_get_section(config, "model").get("name", ABSENT)),
        steps=int(
            result.get("steps")
            or max((entry["update"] for entry in logs_by_run), default=0)
        ),
        planned=_get_section(config, "training").get("steps", 0),
        figures={
            name: entry for name, entry in result.items() if name not in ABOUT_TRAINING
        }
        or _last_validation(logs_by_run),
        finished=bool(result),
        parameters=result.get("parameters"),
        date=max((entry.stat().st_mtime for entry in files), default=0.0),
        size=sum(entry.stat().st_size for entry in files),
    )


def read_settings(run: RunDirectory) -> dict[str, Any]:
    """Return the run file as plain values; its task need not be installed."""
    root, _ = yaml_tree.read(run.file(CONFIG))
    return root.plain() if isinstance(root.value, dict) else {}


def _get_section(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    values = config.get(name)
    return values if isinstance(values, dict) else {}


def _result(run: RunDirectory) -> dict[str, Any]:
    """Return the figures of a finished run; none of another.

    Raises InputError for other values.
    """
    values = run.read_object(RESULT) if run.has(RESULT) else {}
    if wrong := [name for name, value in values.items() if not _is_number(value)]:
        raise InputError(f"{run.path / RESULT}: {wrong[0]} is no number, {CHANGED}")
    return values


def _read_log(run: RunDirectory) -> list[dict[str, Any]]:
    """Return the records of the updates and validations of a run; none without a log.

    Raises InputError for others.
    """
    records = run.read_jsonl(METRICS) if run.has(METRICS) else []
    for number, entry in enumerate(records, 1):
        figures = [
            value
            for name, value in entry.items()
            if name != "kind" and value is not None
        ]
        if not (
            isinstance(entry.get("kind"), str)
            and type(entry.get("update")) is int
            and all(map(_is_number, figures))
        ):
            raise InputError(
                f"{run.path / METRICS}:{number}: has no kind, update and figures; remove the line"
            )
    return records


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def _last_validation(logs_by_run: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    values = [entry for entry in logs_by_run if entry["kind"] == VALIDATION]
    return (
        {
            f"valid/{name}": entry
            for name, entry in values[-1].items()
            if _is_figure(name)
        }
        if values
        else {}
    )


def _is_figure(name: str) -> bool:
    return name not in ("kind", "update")


def list_runs(folder: Path, key: str = "run") -> list[Record]:
    """Return the runs in a folder and below it, by a key of `Record.value`.

    Names upwards, numbers downwards; runs without it come last. Raises InputError for a
    folder without runs and for an unknown key.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; expected a folder of runs")
    records = [
        read_record(entry.parent)
        for entry in sorted(folder.rglob(manifest.NAME))
        if _is_run(entry)
    ]
    if not records:
        raise InputError(
            f"{folder}: has no runs; `regard train RECIPE` makes one in runs/"
        )
    return sort_records(records, key)


def sort_records(records: Sequence[Record], key: str) -> list[Record]:
    """Sort runs by a key. Raise InputError for one that no run has."""
    values = {}
    for entry in records:
        try:
            values[entry.run] = entry.value(key)
        except KeyError:
            values[entry.run] = None
    sortable = [entry for entry in records if values[entry.run] is not None]
    if not sortable:
        names = [
            "figure",
            *asdict(records[0]),
            *(name for entry in records for name in entry.figures),
        ]
        names = [name for name in dict.fromkeys(names) if name != "figures"]
        raise InputError(f"no run has a {key} to sort by; there are {', '.join(names)}")
    up = all(isinstance(values[entry.run], str) for entry in sortable)
    sortable.sort(key=lambda entry: values[entry.run], reverse=not up)
    return sortable + [entry for entry in records if values[entry.run] is None]


def _is_run(path: Path) -> bool:
    return manifest.Manifest.read(path.parent).content == "run"


def compare_runs(first: Path, second: Path) -> list[tuple[str, Any, Any]]:
    """(key, first value, second value) of the settings and figures of two runs that differ."""
    first_record, second_record = read_record(first), read_record(second)
    keys = compare(
        read_settings(RunDirectory.open(first)),
        read_settings(RunDirectory.open(second)),
    )
    figures = compare(first_record.figures, second_record.figures)
    return [
        *keys,
        *figures,
        *compare(
            {"parameters": first_record.parameters},
            {"parameters": second_record.parameters},
        ),
    ]


def draw_curves(folders: Sequence[Path], out: Path) -> Path:
    """Draw the training loss and the first metric of validation of runs against updates, a line a run.

    Raises InputError for runs without a log, and as `write_figure`."""
    logs = {entry: RunDirectory.open(entry) for entry in folders}
    logs_by_run = {
        str(entry): _read_log(run) for entry, run in logs.items() if run.has(METRICS)
    }
    losses = {
        name: _points(records, TRAINING, "loss")
        for name, records in logs_by_run.items()
    }
    metrics = dict.fromkeys(
        name
        for records in logs_by_run.values()
        for entry in records
        if entry["kind"] == VALIDATION
        for name in entry
    )
    parts = [Chart("training", "updates", "loss", _drop_empty(losses))]
    for metric in [name for name in metrics if _is_figure(name)][:1]:
        lines = {
            name: _points(records, VALIDATION, metric)
            for name, records in logs_by_run.items()
        }
        parts.append(Chart("validation", "updates", metric, _drop_empty(lines)))
    if not any(part.lines for part in parts):
        raise InputError("no run has a logged update to draw; train one first")
    return write_figure(
        charts([part for part in parts if part.lines]), out, title="Runs"
    )


def _points(
    records: Sequence[Mapping[str, Any]], kind: str, name: str
) -> list[tuple[float, float]]:
    return [
        (float(entry["update"]), float(entry[name]))
        for entry in records
        if entry["kind"] == kind and entry.get(name) is not None
    ]


def _drop_empty(
    lines: Mapping[str, list[tuple[float, float]]],
) -> dict[str, list[tuple[float, float]]]:
    return {name: points for name, points in lines.items() if points}
