"""The runs of a folder: what each one is, how two differ, and the curves of several."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from regard.config import yaml_nodes
from regard.errors import InputError
from regard.pictures.chart import Chart, charts
from regard.pictures.write import write_figure
from regard.runs.compatibility import ABSENT, differences
from regard.runs.load import CONFIG
from regard.storage import manifest
from regard.storage.manifest import CHANGED
from regard.storage.run_folder import ABOUT_TRAINING, METRICS, RESULT, RunDirectory

TRAINING, VALIDATION = "training", "validation"


@dataclass(frozen=True)
class Record:
    """A run in short.

    run: its folder.
    task, model: their names in the run file.
    steps: the updates of its training so far.
    planned: the updates that its run file plans.
    figures: its metrics, as `test/...` and `valid/...`; of an unfinished run those of its last validation.
    finished: whether its training has ended.
    parameters: the number of its parameters; None before its training has ended.
    date: when it was last written, in seconds since 1970.
    size: the bytes of its files.
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
        """The first metric of the test set, else of the validation set, if there is one."""
        names = sorted(self.figures, key=lambda name: not name.startswith("test/"))
        return (names[0], self.figures[names[0]]) if names else None

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON, with the date as text."""
        return asdict(self) | {"figures": dict(self.figures), "date": self.written}

    @property
    def written(self) -> str:
        """The date and time."""
        return datetime.fromtimestamp(self.date).strftime("%Y-%m-%d %H:%M")

    def value(self, key: str) -> Any:
        """What a list is sorted by: a field, `figure`, or the name of a metric. None where the run has none.

        Raises:
            KeyError: there is no such key."""
        if key == "figure":
            return None if self.figure is None else self.figure[1]
        return self.figures[key] if key in self.figures else asdict(self)[key]


def record(folder: Path) -> Record:
    """The run in a folder. Raises InputError for a folder that is no run, and for a damaged file."""
    run = RunDirectory.open(folder)
    config = settings(run) if run.has(CONFIG) else {}
    logged = _logged(run)
    result = _result(run)
    files = [each for each in folder.rglob("*") if each.is_file()]
    return Record(
        run=str(folder),
        task=str(config.get("task", ABSENT)),
        model=str(_section(config, "model").get("name", ABSENT)),
        steps=int(
            result.get("steps") or max((each["update"] for each in logged), default=0)
        ),
        planned=_section(config, "training").get("steps", 0),
        figures={
            name: each for name, each in result.items() if name not in ABOUT_TRAINING
        }
        or _validated(logged),
        finished=bool(result),
        parameters=result.get("parameters"),
        date=max((each.stat().st_mtime for each in files), default=0.0),
        size=sum(each.stat().st_size for each in files),
    )


def settings(run: RunDirectory) -> dict[str, Any]:
    """The run file as plain values, of a task or model that need not be installed."""
    root, _ = yaml_nodes.read(run.file(CONFIG))
    return root.plain() if isinstance(root.value, dict) else {}


def _section(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = config.get(name)
    return found if isinstance(found, dict) else {}


def _result(run: RunDirectory) -> dict[str, Any]:
    """The figures of a finished run; none of another. Raises InputError for other values."""
    found = run.read_object(RESULT) if run.has(RESULT) else {}
    if wrong := [name for name, value in found.items() if not _is_number(value)]:
        raise InputError(f"{run.path / RESULT}: {wrong[0]} is no number, {CHANGED}")
    return found


def _logged(run: RunDirectory) -> list[dict[str, Any]]:
    """The records of the updates and validations of a run; none without a log. Raises InputError for others."""
    records = run.read_jsonl(METRICS) if run.has(METRICS) else []
    for number, each in enumerate(records, 1):
        figures = [
            value
            for name, value in each.items()
            if name != "kind" and value is not None
        ]
        if not (
            isinstance(each.get("kind"), str)
            and type(each.get("update")) is int
            and all(map(_is_number, figures))
        ):
            raise InputError(
                f"{run.path / METRICS}:{number}: has no kind, update and figures; remove the line"
            )
    return records


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def _validated(logged: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    found = [each for each in logged if each["kind"] == VALIDATION]
    return (
        {f"valid/{name}": each for name, each in found[-1].items() if _is_figure(name)}
        if found
        else {}
    )


def _is_figure(name: str) -> bool:
    return name not in ("kind", "update")


def found(folder: Path, key: str = "run") -> list[Record]:
    """The runs in a folder and below it, by a key of `Record.value`: names upwards, numbers downwards; runs without it
    come last. Raises InputError for a folder without runs and for an unknown key."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; expected a folder of runs")
    records = [
        record(each.parent)
        for each in sorted(folder.rglob(manifest.NAME))
        if _is_run(each)
    ]
    if not records:
        raise InputError(
            f"{folder}: has no runs; `regard train RECIPE` makes one in runs/"
        )
    return ordered(records, key)


def ordered(records: Sequence[Record], key: str) -> list[Record]:
    """Runs by a key. Raises InputError for one that no run has."""
    values = {}
    for each in records:
        try:
            values[each.run] = each.value(key)
        except KeyError:
            values[each.run] = None
    known = [each for each in records if values[each.run] is not None]
    if not known:
        names = [
            "figure",
            *asdict(records[0]),
            *(name for each in records for name in each.figures),
        ]
        names = [name for name in dict.fromkeys(names) if name != "figures"]
        raise InputError(f"no run has a {key} to sort by; there are {', '.join(names)}")
    up = all(isinstance(values[each.run], str) for each in known)
    known.sort(key=lambda each: values[each.run], reverse=not up)
    return known + [each for each in records if values[each.run] is None]


def _is_run(path: Path) -> bool:
    return manifest.Manifest.read(path.parent).content == "run"


def compared(first: Path, second: Path) -> list[tuple[str, Any, Any]]:
    """(key, first value, second value) of the settings and figures of two runs that differ."""
    one, other = record(first), record(second)
    keys = differences(
        settings(RunDirectory.open(first)), settings(RunDirectory.open(second))
    )
    figures = differences(one.figures, other.figures)
    return [
        *keys,
        *figures,
        *differences({"parameters": one.parameters}, {"parameters": other.parameters}),
    ]


def curves(folders: Sequence[Path], out: Path) -> Path:
    """Draw the training loss and the first metric of validation of runs against updates, a line a run.

    Raises InputError for runs without a log, and as `write_figure`."""
    logs = {each: RunDirectory.open(each) for each in folders}
    logged = {str(each): _logged(run) for each, run in logs.items() if run.has(METRICS)}
    losses = {
        name: _points(records, TRAINING, "loss") for name, records in logged.items()
    }
    metrics = dict.fromkeys(
        name
        for records in logged.values()
        for each in records
        if each["kind"] == VALIDATION
        for name in each
    )
    parts = [Chart("training", "updates", "loss", _filled(losses))]
    for metric in [name for name in metrics if _is_figure(name)][:1]:
        lines = {
            name: _points(records, VALIDATION, metric)
            for name, records in logged.items()
        }
        parts.append(Chart("validation", "updates", metric, _filled(lines)))
    if not any(part.lines for part in parts):
        raise InputError("no run has a logged update to draw; train one first")
    return write_figure(
        charts([part for part in parts if part.lines]), out, title="Runs"
    )


def _points(
    records: Sequence[Mapping[str, Any]], kind: str, name: str
) -> list[tuple[float, float]]:
    return [
        (float(each["update"]), float(each[name]))
        for each in records
        if each["kind"] == kind and each.get(name) is not None
    ]


def _filled(
    lines: Mapping[str, list[tuple[float, float]]],
) -> dict[str, list[tuple[float, float]]]:
    return {name: points for name, points in lines.items() if points}
