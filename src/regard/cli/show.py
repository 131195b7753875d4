"""`regard show`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from regard.cli.figure_options import Viewing
from regard.cli.loading import loading
from regard.cli.options import AllowMissing, Comparing, Looking, RunFolder, check_search
from regard.cli.output import say
from regard.errors import InputError

OWN, PLAIN, ALONE = Looking(), Viewing(), Comparing()


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
    comparing: Comparing = ALONE,
    allow_missing: AllowMissing = False,
) -> None:
    """Draw what a run looks at while it answers a text, or what else its answer depends on; or compare two answers."""
    check_search(looking.beam)
    viewing.check()
    if out.is_dir():
        raise InputError(f"{out}: is a directory; expected the name of a picture to write")
    with loading():
        from regard.cli.comparison import compare
        from regard.cli.figure import Asking
        from regard.cli.head_figures import check, draw
        from regard.runs.load import load

        asking = Asking(run, text, out, looking)
        check(asking, viewing, comparing)
        loaded = load(run, allow_missing=allow_missing)
        other = loaded if comparing.run is None else load(comparing.run, allow_missing=allow_missing)
    if comparing.asked:
        answer, paths = compare((loaded, other), asking, comparing), [out]
    else:
        answer, paths = draw(loaded, asking, viewing)
    pictures = f"The picture is {out}." if len(paths) == 1 else f"The pictures are {paths[0]} to {paths[-1]}."
    say(f"{answer}\n{pictures}")
