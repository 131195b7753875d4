"""The model card of an export: README.md with a YAML header, as model hubs show it."""

from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import EvalResult, ModelCardData

from regard.runs.listing import read_record, read_settings
from regard.storage.atomic import write
from regard.storage.run_folder import RunDirectory
from regard.tasks.summary import FILE as DATA
from regard.version import VERSION

FILE = "README.md"
TAG = "regard"
SECTIONS = ("model", "training", "search")
"""The sections of the run file in a card. That of the data names files of the user."""
PRIVATE = ("start", "tensorboard", "tracker", "workers", "threads", "device")
"""Settings of the training that concern one machine."""


def write_card(run: Path, out: Path, form: str) -> None:
    """Write the card of a run into the folder of its export."""
    write(out / FILE, card(run, out.name, form).encode("utf-8"))


def card(run: Path, name: str, form: str) -> str:
    """Return the card of a run that is exported in a form under a name."""
    about = read_record(run)
    folder = RunDirectory.open(run)
    results = [
        EvalResult(
            task_type=about.task,
            dataset_type="private",
            dataset_name="held-out examples",
            metric_type=figure.rpartition("/")[2],
            metric_name=figure,
            metric_value=value,
        )
        for figure, value in about.figures.items()
    ]
    tags = [TAG, "attention", about.task, about.model]
    header = ModelCardData(model_name=name, tags=tags, eval_results=results or None)
    text = (
        f"---\n{header.to_yaml()}\n---\n\n# {name}\n\nA model named `{about.model}` for "
        f"the task `{about.task}`, trained with regard and exported for {form} with "
        f"regard {VERSION}.\n"
    )
    rows = [f"| {name} | {value:.4g} |" for name, value in about.figures.items()]
    text += _table("Figures", "metric", "value", rows)
    data = folder.read_object(DATA) if folder.has(DATA) else {}
    rows = [
        f"| {name} | {value['count']:,} {data['unit']} |"
        for name, value in data.get("rows", {}).items()
    ]
    text += _table("Data", "set", "examples", rows)
    values: dict[str, Any] = dict(read_settings(folder))
    settings = {name: values[name] for name in SECTIONS if name in values}
    for key in PRIVATE:
        settings.get("training", {}).pop(key, None)
    settings = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
    text += f"\n## Settings\n\n```yaml\n{settings}```\n"
    return text


def _table(title: str, first: str, second: str, rows: list[str]) -> str:
    """Return a section with a table; nothing without rows."""
    lines = [f"| {first} | {second} |", "| --- | --- |", *rows]
    return f"\n## {title}\n\n" + "\n".join(lines) + "\n" if rows else ""
