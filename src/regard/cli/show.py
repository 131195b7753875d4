"""`regard show`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from regard.cli.options import AllowMissing, Looking, RunFolder, check_search
from regard.cli.output import say
from regard.errors import InputError

OWN = Looking()


def show(
    run: RunFolder,
    text: Annotated[
        str,
        Parameter(
            name="TEXT",
            help="What the run is to answer; two texts with a tab between, an image by its path, an episode as JSON.",
        ),
    ],
    /,
    *,
    out: Annotated[Path, Parameter(help="The picture to write: a name ending in .png, .svg or .html.")],
    looking: Looking = OWN,
    allow_missing: AllowMissing = False,
) -> None:
    """Draw what a run looks at while it answers a text, or what else its answer depends on."""
    check_search(looking.beam)
    if out.is_dir():
        raise InputError(f"{out}: is a directory; expected the name of a picture to write")
    from regard.cli.drawing import Asking, draw
    from regard.runs import load

    answer = draw(load(run, allow_missing=allow_missing), Asking(run, text, out, looking))
    say(f"{answer}\nThe picture is {out}.")
