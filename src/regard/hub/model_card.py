"""The model card of an export."""

from pathlib import Path

import yaml
from huggingface_hub import EvalResult, ModelCardData

from regard.runs.listing import read_record, read_settings
from regard.storage.atomic import write
from regard.storage.run_folder import RunDirectory
from regard.tasks.summary import FILE as DATA
from regard.version import VERSION

FILE = "README.md"
SECTIONS = ("model", "training", "search")
"""The sections of the run file in a card. That of the data names files of the user."""
PRIVATE = ("start", "tensorboard", "workers", "threads", "device")
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
    tags = ["regard", "attention", about.task, about.model]
    header = ModelCardData(model_name=name, tags=tags, eval_results=results or None)
    data = folder.read_object(DATA) if folder.has(DATA) else {}
    rows = [f"| {figure} | {value:.4g} |" for figure, value in about.figures.items()]
    for part, value in data.get("rows", {}).items():
        rows.append(f"| {part} | {value['count']:,} {data['unit']} |")
    values = read_settings(folder)
    settings = {section: values[section] for section in SECTIONS if section in values}
    for key in PRIVATE:
        settings.get("training", {}).pop(key, None)
    document = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
    parts = [
        f"---\n{header.to_yaml()}\n---\n\n# {name}",
        f"A model named `{about.model}` for the task `{about.task}`, trained with regard "
        f"and exported for {form} with regard {VERSION}.",
        "\n".join(["| metric or set | value |", "| --- | --- |", *rows]),
        f"## Settings\n\n```yaml\n{document}```",
    ]
    return "\n\n".join(parts) + "\n"
