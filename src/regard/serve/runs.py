"""The runs that a server offers."""

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.runs.run_file import load
from regard.serve.openai import build_openai_operations
from regard.serve.operations import build_operations
from regard.serve.worker import Replicas, ServedRun
from regard.storage.verified_files import read_content
from regard.tasks.run import Run
from regard.tasks.summary import FILE

logger = logging.getLogger(__name__)
FIELDS: dict[Any, str] = {str: "text", str | None: "text", bytes: "file"}
"""The page's fields by the types of inputs; others are written as JSON."""


def load_runs(
    folders: Sequence[Path],
    *,
    int8: bool = False,
    open_run: Callable[..., Run[Any, Any]] = load,
) -> list[ServedRun]:
    """Load the runs of folders, each under its folder's name.

    Raises:
        InputError: A folder has no run that can be served, or two names are equal.
    """
    runs: list[ServedRun] = []
    for folder in folders:
        run = open_run(folder, int8=int8)
        runs += build_served_runs(folder.resolve().name, run, folder)
    names = [run.name for run in runs]
    for name in names:
        if names.count(name) > 1:
            raise InputError(
                f"two runs are called {name!r}. Rename one of their folders."
            )
    return runs


def build_served_runs(
    name: str, run: Run[Any, Any], folder: Path
) -> Iterator[ServedRun]:
    """Yield a run, or each of its parts, with its operations.

    Raises:
        InputError: It has no operation.
    """
    if parts := run.parts():
        for part_name, part in parts.items():
            yield from build_served_runs(f"{name}:{part_name}", part, folder)
        return
    replicas = Replicas(run)
    operations = build_operations(replicas)
    openai = build_openai_operations(replicas)
    if not operations and not openai:
        raise InputError(
            f"{folder}: a run of the task {run.config.task} cannot be served. It "
            f"supports {', '.join(run.supports)}."
        )
    inputs = {key: FIELDS.get(kind, "json") for key, kind in run.inputs.items()}
    about = {**run.description(), "inputs": inputs, "cuts": bool(run.cut_modules)}
    if example := read_example(run, folder):
        about["example"] = example
    yield ServedRun(name, about, operations, openai)


def read_example(run: Run[Any, Any], folder: Path) -> dict[str, str]:
    """Read the training example that the page begins with, files in base64.

    A missing or damaged file gives none; a damaged one is logged.
    """
    path = folder / FILE
    if not path.is_file():
        return {}
    try:
        example = json.loads(read_content(path)).get("request") or {}
        values = {key: str(value) for key, value in example.items() if value}
    except (OSError, ValueError, RecursionError, AttributeError) as error:
        logger.warning(
            "%s: cannot be read (%s). The page begins without an example.", path, error
        )
        return {}
    is_complete = len(values) == len(example) and example.keys() <= run.inputs.keys()
    return values if is_complete else {}
