"""`regard export`."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from regard.cli.options import RunFolder
from regard.cli.output import say


def export(
    run: RunFolder,
    /,
    *,
    to: Annotated[Literal["huggingface"], Parameter(help="The form to write.")] = "huggingface",
    out: Annotated[Path, Parameter(help="Folder for what is written; it must not exist.")],
) -> None:
    """Write a run's model as other libraries read it, and check that it computes the same there."""
    from regard.exchange import export_run

    against = export_run(run, out)
    say(f"The model is in {out}, for {to}; it computes the same as the run: {', '.join(against)}.")
