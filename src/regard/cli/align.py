"""`regard align`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from regard.cli.options import Maps, RunFolder, map_numbers
from regard.cli.output import say, table, warn
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.data.pair import Pair
    from regard.maps.alignment import Alignment
    from regard.tasks.capabilities import Aligns

Joined = Literal["intersection", "union", "grow-diag-final-and", "agreement"]


def align(
    run: RunFolder,
    /,
    *,
    source: Annotated[Path, Parameter(help="Text to align, a sentence a line.")],
    target: Annotated[Path, Parameter(help="Its translation, line by line.")],
    maps: Maps = None,
    reverse: Annotated[
        Path | None,
        Parameter(
            help="A run of the other direction, to join the links of both.",
            show_default=False,
        ),
    ] = None,
    pick: Annotated[
        Path | None,
        Parameter(
            help="Print no links but each map's error rate against these gold links, the best first."
        ),
    ] = None,
    join: Annotated[
        Joined | None,
        Parameter(
            help="The symmetrisation of --reverse. Default: grow-diag-final-and.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Align words by the attention of a run.

    Links of words are printed as i-j, from the attention under teacher forcing.
    """
    numbers = map_numbers(maps)
    if pick is not None:
        _refuse_with_pick({"--map": maps, "--reverse": reverse, "--join": join})
    if join is not None and reverse is None:
        raise InputError(
            "--join is given; it joins the links of two runs, so give --reverse as well"
        )
    from regard.data.readers import read_parallel

    pairs = read_parallel(source, target)
    if pick is not None:
        say(table(_ranked(run, pairs, pick)))
        return
    how = "grow-diag-final-and" if join is None else join
    for line in (
        _links(run, pairs, numbers)
        if reverse is None
        else _joined((run, reverse), pairs, numbers, how)
    ):
        say(line)


def _refuse_with_pick(options: Mapping[str, object]) -> None:
    """Raises InputError for options without an effect."""
    for option, value in options.items():
        if value is not None:
            raise InputError(
                f"--pick and {option} are both given; --pick ranks every map of one run, so leave {option} out"
            )


def aligning(run: Path) -> "Aligns":
    """The run in a folder. Raises InputError for a run without word alignments."""
    from regard.runs.load import load
    from regard.tasks.capabilities import Aligns, capable

    return capable(load(run), Aligns, run)


def _ranked(run: Path, pairs: "list[Pair]", pick: Path) -> dict[str, str]:
    """The error rate of each map in per cent, best first."""
    from regard.data.links import check_inside, read_gold
    from regard.maps.links import errors_of_maps

    gold = read_gold(pick)
    if len(gold) != len(pairs):
        raise InputError(
            f"{pick} has {len(gold)} lines, the text has {len(pairs)}; expected equally many"
        )
    for number, (pair, links) in enumerate(zip(pairs, gold, strict=True), 1):
        check_inside(
            f"{pick}:{number}",
            links.possible,
            (len(pair.source.split()), len(pair.target.split())),
        )
    errors = enumerate(errors_of_maps(aligning(run).word_maps(pairs), gold))
    return {
        f"map {number}": f"{100 * error:.2f}"
        for number, error in sorted(errors, key=lambda each: each[1])
    }


def _links(run: Path, pairs: "list[Pair]", maps: Sequence[int] | None) -> list[str]:
    """The links of each pair in one direction."""
    from regard.maps.links import pharaoh, strongest

    return [pharaoh(strongest(each.weights)) for each in _aligned(run, pairs, maps)]


def _aligned(
    run: Path, pairs: "list[Pair]", maps: Sequence[int] | None = None
) -> "list[Alignment]":
    """The alignment of each pair, with a warning for one that the run can hardly read."""
    from regard.tasks.capabilities import pair_warnings

    loaded = aligning(run)
    for pair in pairs:
        warn(pair.place, pair_warnings(loaded, pair))
    return loaded.align(pairs, maps)


def _joined(
    runs: tuple[Path, Path],
    pairs: "list[Pair]",
    maps: Sequence[int] | None,
    join: Joined,
) -> list[str]:
    """The links of each pair in both directions; `maps` are those of the first."""
    from regard.data.pair import Pair
    from regard.maps.links import (
        agreement,
        grow_diag_final_and,
        intersection,
        pharaoh,
        strongest,
        turned,
        union,
    )

    exchanged = [Pair(pair.target, pair.source, pair.place) for pair in pairs]
    forward, backward = _aligned(runs[0], pairs, maps), _aligned(runs[1], exchanged)
    both = [
        (one.weights, other.weights)
        for one, other in zip(forward, backward, strict=True)
    ]
    if join == "agreement":
        return [pharaoh(agreement(*maps)) for maps in both]
    how = {
        "intersection": intersection,
        "union": union,
        "grow-diag-final-and": grow_diag_final_and,
    }[join]
    return [
        pharaoh(how(strongest(one), turned(strongest(other)))) for one, other in both
    ]
