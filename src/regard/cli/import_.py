"""`regard import`."""

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from regard.cli.options import Overwrite
from regard.cli.output import say
from regard.cli.train import CONFIG, trained

Source = Annotated[
    str,
    Parameter(
        name="SOURCE",
        help="Folder of a published model, or its name on the hub, OWNER/NAME.",
    ),
]
Out = Annotated[
    Path | None,
    Parameter(help="Folder for the run. Default: runs/ and the model's name."),
]
Revision = Annotated[
    str | None,
    Parameter(
        help="Branch, tag or commit on the hub; the commit is written down. Default: the newest."
    ),
]
Pairs = Annotated[
    bool,
    Parameter(
        negative="",
        help="The model classifies pairs of texts, which its files do not state.",
    ),
]


def import_(
    source: Source,
    /,
    *,
    out: Out = None,
    revision: Revision = None,
    pairs: Pairs = False,
    overwrite: Overwrite = False,
) -> None:
    """Convert a published model into a run."""
    from regard.hub import import_run
    from regard.runs import run_file
    from regard.storage.replacement import is_run, replaced

    folder = Path("runs") / Path(source).resolve().name if out is None else out
    with replaced(folder, is_run, "a run") if overwrite else nullcontext():
        import_run(source, folder, revision, paired=pairs)
    say(trained(folder, run_file.read(folder / CONFIG)))
