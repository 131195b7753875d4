"""`regard runs`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from regard.cli.options import Json
from regard.cli.output import aligned, say, say_json
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.runs.listing import Record

Folders = Annotated[
    Path,
    Parameter(
        name="DIR",
        help="A folder of runs, or runs; of two runs the differences. Default: runs.",
    ),
]
Sort = Annotated[
    str,
    Parameter(
        help="run, steps, figure, date, size or a metric such as test/bleu; numbers downwards."
    ),
]
Out = Annotated[
    Path | None,
    Parameter(help="Draw the curves of the runs: a name ending in .png, .svg or .pdf."),
]
HEADER = ("run", "task", "model", "steps", "figure", "parameters", "date", "size")


def runs(
    *folders: Folders, sort: Sort = "run", out: Out = None, json_: Json = False
) -> None:
    """List runs with their figures, or the differences of two."""
    from regard.runs import listing

    folders = folders or (Path("runs"),)
    single = len(folders) == 1
    records = (
        listing.found(folders[0], sort)
        if single
        else listing.ordered([*map(listing.record, folders)], sort)
    )
    if out is not None:
        listing.curves([Path(each.run) for each in records], out)
        return say(f"The curves are in {out}.")
    if len(folders) == 2:
        return compare(folders[0], folders[1], as_json=json_)
    if json_:
        return say_json([each.to_json() for each in records])
    say(aligned(HEADER, [row(each) for each in records]))


def compare(first: Path, second: Path, *, as_json: bool) -> None:
    """Print the settings and figures of two runs that differ."""
    from regard.runs.listing import compared

    found = compared(first, second)
    if as_json:
        return say_json({key: [one, other] for key, one, other in found})
    if not found:
        raise InputError(f"{first} and {second} have the same settings and figures")
    say(
        aligned(
            ("", str(first), str(second)),
            [(key, brief(one), brief(other)) for key, one, other in found],
        )
    )


def row(record: "Record") -> Sequence[str]:
    """The cells of a run."""
    figure = (
        "" if record.figure is None else f"{record.figure[0]} {brief(record.figure[1])}"
    )
    steps = (
        f"{record.steps:,}"
        if record.finished
        else f"{record.steps:,} of {record.planned:,}"
    )
    parameters = "" if record.parameters is None else f"{record.parameters:,}"
    size = f"{record.size / 1e6:,.1f} MB"
    return (
        record.run,
        record.task,
        record.model,
        steps,
        figure,
        parameters,
        record.written,
        size,
    )


def brief(value: object) -> str:
    """A value in a cell."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
