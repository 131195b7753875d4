"""The model card of an export: README.md with a YAML header, as model hubs show it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from regard.runs.listing import Record, read_record, read_settings
from regard.runs.resume import ENVIRONMENT
from regard.storage.atomic import write
from regard.storage.run_folder import RunDirectory
from regard.tasks.summary import FILE as DATA
from regard.version import VERSION

FILE = "README.md"
TAG = "regard"
SHOWN = ("model", "training", "search")
"""The sections of the run file that a card shows. The section of the data names files of the user."""
PRIVATE = ("start", "tensorboard", "tracker", "workers", "threads", "device")
"""Settings of the training that concern one machine."""


def write_card(run: Path, out: Path, form: str) -> None:
    """Write the card of the run in a folder beside its export in the folder `out`. Raises as `atomic.write`."""
    write(out / FILE, card(run, out.name, form).encode("utf-8"))


def card(run: Path, name: str, form: str) -> str:
    """The card of a run that is exported in a `form` under a `name`."""
    about, folder = read_record(run), RunDirectory.open(run)
    parts = [
        f"# {name}",
        f"A model named `{about.model}` for the task `{about.task}`, trained with regard and exported for {form}.",
        *_figures(about.figures),
        *_data(folder.read_object(DATA) if folder.has(DATA) else {}),
        *_settings(read_settings(folder)),
        *_environment(
            folder.read_object(ENVIRONMENT) if folder.has(ENVIRONMENT) else {}
        ),
    ]
    return f"---\n{header(about, name)}---\n\n" + "\n\n".join(parts) + "\n"


def header(about: Record, name: str) -> str:
    """The header of a card, with the metrics in the form of a model index."""
    values: dict[str, Any] = {"tags": [TAG, "attention", about.task, about.model]}
    if about.figures:
        metrics = [
            {"type": figure.rpartition("/")[2], "name": figure, "value": value}
            for figure, value in about.figures.items()
        ]
        data = {"name": "held-out examples", "type": "private"}
        results = [{"task": {"type": about.task}, "dataset": data, "metrics": metrics}]
        values["model-index"] = [{"name": name, "results": results}]
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True)


def is_export(folder: Path) -> bool:
    """Whether a folder is an export of ours, by the tag in the header of its card."""
    path = folder / FILE
    if not path.is_file():
        return False
    start, _, rest = path.read_text(encoding="utf-8", errors="replace").partition(
        "---\n"
    )
    try:
        values = yaml.safe_load(rest.partition("\n---\n")[0]) if not start else None
    except yaml.YAMLError:
        return False
    return isinstance(values, dict) and TAG in (values.get("tags") or ())


def _figures(figures: Mapping[str, float]) -> list[str]:
    rows = "\n".join(f"| {name} | {value:.4g} |" for name, value in figures.items())
    return (
        [f"## Figures\n\n| metric | value |\n| --- | --- |\n{rows}"] if figures else []
    )


def _data(data: Mapping[str, Any]) -> list[str]:
    """The number of examples; without the names of files, which are the user's."""
    rows = "\n".join(
        f"| {name} | {value['count']:,} {data['unit']} |"
        for name, value in data.get("rows", {}).items()
    )
    return [f"## Data\n\n| set | examples |\n| --- | --- |\n{rows}"] if rows else []


def _settings(values: Mapping[str, Any]) -> list[str]:
    shown = {name: values[name] for name in SHOWN if name in values}
    if isinstance(shown.get("training"), dict):
        shown["training"] = {
            key: value for key, value in shown["training"].items() if key not in PRIVATE
        }
    return (
        [
            f"## Settings\n\n```yaml\n{yaml.safe_dump(shown, sort_keys=False, allow_unicode=True)}```"
        ]
        if shown
        else []
    )


def _environment(values: Mapping[str, Any]) -> list[str]:
    names = ", ".join(
        f"{name} {values[name]}"
        for name in ("torch", "tokenizers", "python")
        if name in values
    )
    trained = values.get("regard")
    return (
        [
            f"## Environment\n\nTrained with regard {trained}, {names}; exported with regard {VERSION}."
        ]
        if trained
        else []
    )
