"""What two runs say to the same, side by side."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import create_model

from regard.errors import InputError
from regard.pictures.labels import visible
from regard.serve.operation import Operation, Said, Served, Wanted
from regard.serve.request import Ask

Told = dict[str, Any]


def comparing(runs: Sequence[Served]) -> list[Served]:
    """The runs, each of which that shows what it looks at with an operation that sets its answer beside that of
    an `other`; `about` each stands which those are that it can be compared with."""
    loaded = {run.name: run for run in runs}
    return [_comparing(run, loaded) if _looks(run) else run for run in runs]


def _comparing(run: Served, loaded: Mapping[str, Served]) -> Served:
    names = [name for name, each in loaded.items() if each is not run and _looks(each) and _kind(each) == _kind(run)]

    def answer(asks: Sequence[Any], wanted: Wanted) -> Iterator[Said]:
        (ask,) = asks
        check(run, ask.other, names, loaded)
        told = []
        for each in (run, loaded[ask.other]):
            data = _whole(each, ask, wanted)
            if data is None:
                return
            told.append(data)
        yield Said(0, _side_by_side((run.name, ask.other), told))

    asks = create_model("Compare", __base__=_whole_operation(run).asks, other=(str, ...))
    return replace(
        run,
        about={**run.about, "comparable": names},
        operations={**run.operations, "compare": Operation(asks, answer)},
    )


def check(run: Served, other: str, names: Sequence[str], loaded: Mapping[str, Served]) -> None:
    """Raises InputError where the other run cannot be compared with this one; `names` are those that can."""
    if other in names:
        return
    instead = f"beside {run.name} {', '.join(names) or 'none of those loaded'} can be seen"
    if other not in loaded:
        raise InputError(f"no run is called {other[:80]!r}; {instead}")
    if other == run.name:
        raise InputError(f"{other} is compared with itself; {instead}")
    if not _looks(loaded[other]):
        raise InputError(f"{other} attends to nothing, so there is nothing to compare; {instead}")
    kinds = " and ".join(f"{each.name} ({each.about['kind']}, {each.about['task']})" for each in (run, loaded[other]))
    raise InputError(f"{kinds} are not of one kind, so they are not compared; {instead}")


def _looks(run: Served) -> bool:
    return "attention" in run.operations


def _kind(run: Served) -> tuple[Any, Any]:
    """What two runs have in common that can be asked the same and answer alike."""
    return run.about["kind"], run.about["task"]


def _whole_operation(run: Served) -> Operation:
    """What answers with the view of the answer: the last line of what is written, or else what was looked at."""
    return run.operations.get("stream", run.operations["attention"])


def _whole(run: Served, ask: Ask, wanted: Wanted) -> Told | None:
    """A run's answer and its view; None where nobody waits for it any more. Raises InputError as the run does, with its
    name."""
    operation = _whole_operation(run)
    if operation.streams:
        ask = ask.model_copy(update={"view": True})
    try:
        said = list(operation.answer([ask], lambda number: wanted(0)))
    except ValueError as error:
        raise InputError(f"{run.name}: {error}") from error
    if not said or not said[-1].last:
        return None
    if "view" not in said[-1].data:
        raise InputError(f"{run.name}: {said[-1].data['unseen']}")
    return {name: value for name, value in said[-1].data.items() if name != "event"}


def _side_by_side(names: Sequence[str], told: Sequence[Told]) -> Told:
    """The answers by their runs' names, and one view of both."""
    views = [data["view"] for data in told]
    lookups = [view["lookups"][0] | {"name": visible(name)} for name, view in zip(names, views, strict=True)]
    answers = [
        {"run": name} | {key: value for key, value in data.items() if key != "view"}
        for name, data in zip(names, told, strict=True)
    ]
    return {"answers": answers, "view": views[0] | {"lookups": lookups, "compare": 1}}
