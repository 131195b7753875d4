"""The runs that a server offers."""

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.runs.load import load
from regard.serve.openai import openai_operations
from regard.serve.operation import ServedRun
from regard.serve.operations import operations_of
from regard.serve.replica import Replicas
from regard.storage.manifest import content
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
    """The runs of these folders, each by its folder's name, of a run of several languages one for each; with `int8`,
    as `open_run` has them.

    Raises:
        InputError: a folder has no run, or one that cannot be served, or two have the same name.
    """
    runs: list[ServedRun] = []
    for folder in folders:
        runs += served(folder.resolve().name, open_run(folder, int8=int8), folder)
    names = [each.name for each in runs]
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError(f"two runs are called {twice[0]!r}; rename the folder of one")
    return runs


def served(name: str, run: Run[Any, Any], folder: Path) -> Iterator[ServedRun]:
    """A run, or each of its parts, with its operations. Raises InputError for one that has none."""
    if parts := run.parts():
        for part, each in parts.items():
            yield from served(f"{name}:{part}", each, folder)
        return
    replicas = Replicas(run)
    operations, openai = operations_of(replicas), openai_operations(replicas)
    if not operations and not openai:
        verbs = ", ".join(run.supports)
        raise InputError(
            f"{folder}: a run of the task {run.config.task} cannot be served; it can {verbs}"
        )
    inputs = {key: FIELDS.get(kind, "json") for key, kind in run.inputs.items()}
    yield ServedRun(
        name,
        {**run.description(), "inputs": inputs, **example_of(run, folder)},
        operations,
        openai,
    )


def example_of(run: Run[Any, Any], folder: Path) -> dict[str, Any]:
    """The first training example that the folder keeps, for the page to begin with, files in base64; none for a folder
    without one that has the run's inputs. A damaged file is logged, and the page begins empty."""
    path = folder / FILE
    if not path.is_file():
        return {}
    try:
        whole = json.loads(content(path))
    except (OSError, ValueError, RecursionError) as error:
        logger.warning(
            "%s: cannot be read (%s); the page begins without an example", path, error
        )
        return {}
    found = whole.get("request") if isinstance(whole, dict) else whole
    if not isinstance(found, dict | None):
        logger.warning(
            "%s: has no request of texts by name; the page begins without an example",
            path,
        )
        return {}
    if not found or not found.keys() <= run.inputs.keys() or not all(found.values()):
        return {}
    return {"example": {key: str(value) for key, value in found.items()}}
