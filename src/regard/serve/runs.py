"""The runs that a server offers, and the comparison of two of them."""

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import create_model

from regard.errors import InputError
from regard.pictures.text import show_invisible
from regard.runs.load import load
from regard.serve.openai import build_openai_operations
from regard.serve.operations import build_operations
from regard.serve.requests import RequestBody
from regard.serve.worker import (
    IsActive,
    Operation,
    Replicas,
    ResponsePart,
    ServedRun,
)
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
    """Load the runs of folders, each under its folder's name.

    Raises:
        InputError: A folder has no run that can be served, or two names are equal.
    """
    runs: list[ServedRun] = []
    for folder in folders:
        run = open_run(folder, int8=int8)
        runs += build_served_runs(folder.resolve().name, run, folder)
    names: set[str] = set()
    for run in runs:
        if run.name in names:
            raise InputError(
                f"two runs are called {run.name!r}. Rename one of their folders."
            )
        names.add(run.name)
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
    about = {**run.description(), "inputs": inputs, **read_example(run, folder)}
    yield ServedRun(name, about, operations, openai)


def read_example(run: Run[Any, Any], folder: Path) -> dict[str, Any]:
    """Read the training example that the page begins with, files in base64.

    A missing or damaged file gives none; a damaged one is logged.
    """
    path = folder / FILE
    if not path.is_file():
        return {}
    try:
        record = json.loads(content(path))
    except (OSError, ValueError, RecursionError) as error:
        logger.warning(
            "%s: cannot be read (%s). The page begins without an example.", path, error
        )
        return {}
    example = record.get("request") if isinstance(record, dict) else record
    if not isinstance(example, dict | None):
        logger.warning("%s: contains no example. The page begins without one.", path)
        return {}
    if not example or not example.keys() <= run.inputs.keys():
        return {}
    if not all(example.values()):
        return {}
    return {"example": {key: str(value) for key, value in example.items()}}


def add_comparisons(runs: Sequence[ServedRun]) -> list[ServedRun]:
    """Add an operation that compares two runs to each run that attends.

    The key `comparable` of `about` names the runs that it can be compared with.
    """
    loaded = {run.name: run for run in runs}
    return [_add_comparison(run, loaded) if _attends(run) else run for run in runs]


def _add_comparison(run: ServedRun, loaded: Mapping[str, ServedRun]) -> ServedRun:
    names = [
        other.name
        for other in loaded.values()
        if other is not run and _attends(other) and _kind(other) == _kind(run)
    ]

    def respond(requests: Sequence[Any], active: IsActive) -> Iterator[ResponsePart]:
        (request,) = requests
        check_comparable(run, request.other, names, loaded)
        answers = []
        for compared in (run, loaded[request.other]):
            answer = _answer_completely(compared, request, active)
            if answer is None:
                return
            answers.append(answer)
        yield ResponsePart(0, _join_answers((run.name, request.other), answers))

    base = _complete_operation(run).request
    body = create_model("Compare", __base__=base, other=(str, ...))
    return replace(
        run,
        about={**run.about, "comparable": names},
        operations={**run.operations, "compare": Operation(body, respond)},
    )


def check_comparable(
    run: ServedRun, other: str, names: Sequence[str], loaded: Mapping[str, ServedRun]
) -> None:
    """Check that another run can be compared with this one.

    Raises:
        InputError: It is not among `names`.
    """
    if other in names:
        return
    choices = f"{run.name} can be compared with {', '.join(names) or 'no loaded run'}"
    if other not in loaded:
        raise InputError(f"no run is called {other[:80]!r}; {choices}")
    if other == run.name:
        raise InputError(f"{other} is compared with itself; {choices}")
    if not _attends(loaded[other]):
        raise InputError(f"{other} has no attention to compare; {choices}")
    kinds = []
    for item in (run, loaded[other]):
        kinds.append(f"{item.name} ({item.about['kind']}, {item.about['task']})")
    raise InputError(f"{' and '.join(kinds)} are not of one kind; {choices}")


def _attends(run: ServedRun) -> bool:
    return "attention" in run.operations


def _kind(run: ServedRun) -> tuple[Any, Any]:
    """Return what two runs with equal requests and answers have in common."""
    return run.about["kind"], run.about["task"]


def _complete_operation(run: ServedRun) -> Operation:
    """Return the operation whose last part has the view of a complete answer."""
    return run.operations.get("stream", run.operations["attention"])


def _answer_completely(
    run: ServedRun, request: RequestBody, active: IsActive
) -> dict[str, Any] | None:
    """Return a run's answer and its view; None if its client has left.

    Raises:
        InputError: As the run does, with its name.
    """
    operation = _complete_operation(run)
    if operation.streams:
        request = request.model_copy(update={"view": True})
    try:
        parts = list(operation.respond([request], lambda number: active(0)))
    except ValueError as error:
        raise InputError(f"{run.name}: {error}") from error
    if not parts or not parts[-1].last:
        return None
    answer = parts[-1].data
    if "view" not in answer:
        raise InputError(f"{run.name}: {answer['unseen']}")
    return {name: value for name, value in answer.items() if name != "event"}


def _join_answers(
    names: Sequence[str], answers: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Join the answers of two runs and their views."""
    lookups, records = [], []
    for name, answer in zip(names, answers, strict=True):
        lookups.append(answer["view"]["lookups"][0] | {"name": show_invisible(name)})
        record = {key: value for key, value in answer.items() if key != "view"}
        records.append({"run": name} | record)
    view = answers[0]["view"] | {"lookups": lookups, "compare": 1}
    return {"answers": records, "view": view}
