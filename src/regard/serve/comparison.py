"""The answers of two runs to one request, side by side."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import create_model

from regard.errors import InputError
from regard.pictures.labels import visible
from regard.serve.operation import Active, Operation, ResponsePart, ServedRun
from regard.serve.request import RequestBody

Answer = dict[str, Any]


def with_comparison(runs: Sequence[ServedRun]) -> list[ServedRun]:
    """The runs, each that attends with an operation that sets its answer beside that of an `other`; `about` each stands
    which those are."""
    loaded = {run.name: run for run in runs}
    return [_compared(run, loaded) if _attends(run) else run for run in runs]


def _compared(run: ServedRun, loaded: Mapping[str, ServedRun]) -> ServedRun:
    names = [
        name
        for name, each in loaded.items()
        if each is not run and _attends(each) and _kind(each) == _kind(run)
    ]

    def respond(requests: Sequence[Any], active: Active) -> Iterator[ResponsePart]:
        (request,) = requests
        check(run, request.other, names, loaded)
        answers = []
        for each in (run, loaded[request.other]):
            answer = _whole(each, request, active)
            if answer is None:
                return
            answers.append(answer)
        yield ResponsePart(0, _side_by_side((run.name, request.other), answers))

    body = create_model(
        "Compare", __base__=_whole_operation(run).request, other=(str, ...)
    )
    return replace(
        run,
        about={**run.about, "comparable": names},
        operations={**run.operations, "compare": Operation(body, respond)},
    )


def check(
    run: ServedRun, other: str, names: Sequence[str], loaded: Mapping[str, ServedRun]
) -> None:
    """Raises InputError where the other run cannot be compared with this one; `names` are those that can."""
    if other in names:
        return
    instead = (
        f"beside {run.name} {', '.join(names) or 'none of those loaded'} can be seen"
    )
    if other not in loaded:
        raise InputError(f"no run is called {other[:80]!r}; {instead}")
    if other == run.name:
        raise InputError(f"{other} is compared with itself; {instead}")
    if not _attends(loaded[other]):
        raise InputError(
            f"{other} attends to nothing, so there is nothing to compare; {instead}"
        )
    kinds = " and ".join(
        f"{each.name} ({each.about['kind']}, {each.about['task']})"
        for each in (run, loaded[other])
    )
    raise InputError(
        f"{kinds} are not of one kind, so they are not compared; {instead}"
    )


def _attends(run: ServedRun) -> bool:
    return "attention" in run.operations


def _kind(run: ServedRun) -> tuple[Any, Any]:
    """What two runs that take the same request and answer alike have in common."""
    return run.about["kind"], run.about["task"]


def _whole_operation(run: ServedRun) -> Operation:
    """The operation whose response has the view of a whole answer: a stream's in its last line, or the attention."""
    return run.operations.get("stream", run.operations["attention"])


def _whole(run: ServedRun, request: RequestBody, active: Active) -> Answer | None:
    """A run's answer and its view; None where no client waits for it any more. Raises InputError as the run does, with
    its name."""
    operation = _whole_operation(run)
    if operation.streams:
        request = request.model_copy(update={"view": True})
    try:
        parts = list(operation.respond([request], lambda number: active(0)))
    except ValueError as error:
        raise InputError(f"{run.name}: {error}") from error
    if not parts or not parts[-1].last:
        return None
    if "view" not in parts[-1].data:
        raise InputError(f"{run.name}: {parts[-1].data['unseen']}")
    return {name: value for name, value in parts[-1].data.items() if name != "event"}


def _side_by_side(names: Sequence[str], answers: Sequence[Answer]) -> Answer:
    """The answers by their runs' names, and one view of both."""
    views = [answer["view"] for answer in answers]
    lookups = [
        view["lookups"][0] | {"name": visible(name)}
        for name, view in zip(names, views, strict=True)
    ]
    without_views = [
        {"run": name} | {key: value for key, value in answer.items() if key != "view"}
        for name, answer in zip(names, answers, strict=True)
    ]
    return {
        "answers": without_views,
        "view": views[0] | {"lookups": lookups, "compare": 1},
    }
