"""`regard align`."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from regard.cli.options import RunFolder
from regard.cli.output import say

Joined = Literal["intersection", "union", "grow-diag-final-and"]


def align(
    run: RunFolder,
    /,
    *,
    source: Annotated[Path, Parameter(help="Text to align, a sentence a line.")],
    target: Annotated[Path, Parameter(help="Its translation, line by line.")],
    maps: Annotated[
        list[int] | None,
        Parameter(
            name="--map",
            negative="",
            help="Take this map alone: layer x heads + head, from 0. Repeatable. Default: all.",
        ),
    ] = None,
    reverse: Annotated[
        Path | None, Parameter(help="A run of the other direction, to join the links of both.", show_default=False)
    ] = None,
    join: Annotated[Joined, Parameter(help="How, with --reverse.")] = "grow-diag-final-and",
) -> None:
    """Print which words belong to each other, as i-j, by what a run reads while it writes the target."""
    from regard.data.pair import Pair
    from regard.data.readers import read_parallel
    from regard.maps.links import grow_diag_final_and, intersection, pharaoh, strongest, turned, union
    from regard.runs import load

    pairs = read_parallel(source, target)
    found = [strongest(each.weights) for each in load(run).align(pairs, maps)]
    if reverse is not None:
        exchanged = [Pair(pair.target, pair.source, pair.place) for pair in pairs]
        back = [strongest(each.weights) for each in load(reverse).align(exchanged)]
        how = {"intersection": intersection, "union": union, "grow-diag-final-and": grow_diag_final_and}[join]
        found = [how(links, turned(other)) for links, other in zip(found, back, strict=True)]
    for links in found:
        say(pharaoh(links))
