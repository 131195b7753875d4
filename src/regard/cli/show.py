"""`regard show`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from regard.cli.loading import loading
from regard.cli.options import AllowMissing, Looking, RunFolder, check_search
from regard.cli.output import say
from regard.cli.viewing import Viewing
from regard.errors import InputError

OWN, PLAIN = Looking(), Viewing()


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
    viewing: Viewing = PLAIN,
    allow_missing: AllowMissing = False,
) -> None:
    """Draw what a run looks at while it answers a text, or what else its answer depends on."""
    check_search(looking.beam)
    viewing.check()
    if out.is_dir():
        raise InputError(f"{out}: is a directory; expected the name of a picture to write")
    with loading():
        from regard.cli.drawing import Asking
        from regard.cli.views import draw
        from regard.runs import load

        loaded = load(run, allow_missing=allow_missing)
    answer, paths = draw(loaded, Asking(run, text, out, looking), viewing)
    pictures = f"The picture is {out}." if len(paths) == 1 else f"The pictures are {paths[0]} to {paths[-1]}."
    say(f"{answer}\n{pictures}")
