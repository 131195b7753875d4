"""Upload of a run with its model card."""

from pathlib import Path

import yaml
from huggingface_hub import EvalResult, HfApi, ModelCardData
from huggingface_hub.errors import (
    HfHubHTTPError,
    LocalTokenNotFoundError,
)

from regard.errors import InputError, RunError
from regard.models.published import first_line
from regard.runs.listing import read_record, read_settings
from regard.storage.atomic import write
from regard.storage.hub_download import NAME
from regard.storage.run_folder import RunDirectory
from regard.tasks.summary import FILE as DATA
from regard.version import VERSION

REFUSED = (401, 403)


def check_name(name: str) -> None:
    """Raise InputError for a text that is no name of a model on the hub."""
    if not NAME.fullmatch(name) or "/" not in name:
        raise InputError(f"--push {name}: expected OWNER/NAME on the hub")


def push(folder: Path, name: str) -> str:
    """Upload the files of a folder as a model, and return its address.

    A model that the hub does not have yet is created as a private one.

    Raises:
        InputError: Nobody is logged in, or the owner's models may not be written.
        RunError: The hub does not answer.
    """
    api = HfApi()
    try:
        address = api.create_repo(name, private=True, exist_ok=True)
        api.upload_folder(
            repo_id=name, folder_path=folder, commit_message="Export of a regard run"
        )
    except LocalTokenNotFoundError as error:
        raise InputError(
            f"{name}: nobody is logged in to the hub; log in with `hf auth login`"
        ) from error
    # transfers fail with the transport's own errors, and its library varies
    except Exception as error:
        reason = first_line(error)
        if isinstance(error, HfHubHTTPError):
            reason = f"HTTP {error.response.status_code}"
            if error.response.status_code in REFUSED:
                raise InputError(
                    f"{name}: the hub does not let you write there ({reason}); log in "
                    "with `hf auth login`, or choose an owner that you may write to"
                ) from error
        raise RunError(
            f"{name}: the upload failed ({reason}); the export is in {folder}, push it "
            "again"
        ) from error
    return str(address)


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
    results = []
    figures = []
    for figure, value in about.figures.items():
        figures.append(f"| {figure} | {value:.4g} |")
        result = EvalResult(
            task_type=about.task,
            dataset_type="private",
            dataset_name="held-out examples",
            metric_type=figure.rpartition("/")[2],
            metric_name=figure,
            metric_value=value,
        )
        results.append(result)
    tags = [TAG, "attention", about.task, about.model]
    header = ModelCardData(model_name=name, tags=tags, eval_results=results or None)
    text = (
        f"---\n{header.to_yaml()}\n---\n\n# {name}\n\nA model named `{about.model}` for "
        f"the task `{about.task}`, trained with regard and exported for {form} with "
        f"regard {VERSION}.\n"
    )
    data = folder.read_object(DATA) if folder.has(DATA) else {}
    sets = [
        f"| {part} | {value['count']:,} {data['unit']} |"
        for part, value in data.get("rows", {}).items()
    ]
    tables = {
        "Figures": ("metric", "value", figures),
        "Data": ("set", "examples", sets),
    }
    for title, (first, second, rows) in tables.items():
        if rows:
            lines = [f"| {first} | {second} |", "| --- | --- |", *rows]
            text += f"\n## {title}\n\n" + "\n".join(lines) + "\n"
    values = read_settings(folder)
    settings = {section: values[section] for section in SECTIONS if section in values}
    for key in PRIVATE:
        settings.get("training", {}).pop(key, None)
    document = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
    return text + f"\n## Settings\n\n```yaml\n{document}```\n"
