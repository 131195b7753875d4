"""Commands of word alignment: `regard align` and `regard aer`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from regard.cli.options import RunFolder, parse_maps
from regard.cli.output import say, table, warn
from regard.errors import InputError
from regard.tasks.options import AttributionOptions, list_options

if TYPE_CHECKING:
    from regard.data.pairs import Pair
    from regard.maps.alignment import Alignment
    from regard.tasks.capabilities import Aligns

Maps = Annotated[
    tuple[str, ...],
    Parameter(
        name="--map",
        negative="",
        show_default=False,
        help=list_options(AttributionOptions)["maps"].help,
    ),
]
Joined = Literal["intersection", "union", "grow-diag-final-and", "agreement"]


def align(
    run: RunFolder,
    /,
    *,
    source: Annotated[Path, Parameter(help="Text to align, a sentence a line.")],
    target: Annotated[Path, Parameter(help="Its translation, line by line.")],
    maps: Maps = (),
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
    numbers = parse_maps(maps)
    if pick is not None:
        _refuse_with_pick({"--map": maps or None, "--reverse": reverse, "--join": join})
    if join is not None and reverse is None:
        raise InputError(
            "--join is given; it joins the links of two runs, so give --reverse as well"
        )
    from regard.data.pairs import read_parallel

    pairs = read_parallel(source, target)
    if pick is not None:
        say(table(_rank_maps(run, pairs, pick)))
        return
    method = "grow-diag-final-and" if join is None else join
    for line in (
        _links(run, pairs, numbers)
        if reverse is None
        else _join_directions((run, reverse), pairs, numbers, method)
    ):
        say(line)


def _refuse_with_pick(options: Mapping[str, object]) -> None:
    """Raise InputError for options without an effect."""
    for option, value in options.items():
        if value is not None:
            raise InputError(
                f"--pick and {option} are both given; --pick ranks every map of one run, so leave {option} out"
            )


def load_aligner(run: Path) -> "Aligns":
    """Return the run in a folder.

    Raises InputError for a run without word alignments.
    """
    from regard.runs.load import load
    from regard.tasks.capabilities import Aligns, require_capability

    return require_capability(load(run), Aligns, run)


def _rank_maps(run: Path, pairs: "list[Pair]", pick: Path) -> dict[str, str]:
    """Return the error rate of each map in per cent, best first."""
    from regard.data.pairs import check_inside, read_gold
    from regard.maps.links import score_maps

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
    errors = enumerate(score_maps(load_aligner(run).word_maps(pairs), gold))
    return {
        f"map {number}": f"{100 * error:.2f}"
        for number, error in sorted(errors, key=lambda alignment: alignment[1])
    }


def _links(run: Path, pairs: "list[Pair]", maps: Sequence[int] | None) -> list[str]:
    """Return the links of each pair in one direction."""
    from regard.maps.links import format_pharaoh, link_strongest

    return [
        format_pharaoh(link_strongest(alignment.weights))
        for alignment in _align_pairs(run, pairs, maps)
    ]


def _align_pairs(
    run: Path, pairs: "list[Pair]", maps: Sequence[int] | None = None
) -> "list[Alignment]":
    """Return the alignment of each pair, with a warning for one that is hard to read."""
    from regard.tasks.capabilities import warn_pair

    loaded = load_aligner(run)
    for pair in pairs:
        warn(pair.place, warn_pair(loaded, pair))
    return loaded.align(pairs, maps)


def _join_directions(
    runs: tuple[Path, Path],
    pairs: "list[Pair]",
    maps: Sequence[int] | None,
    join: Joined,
) -> list[str]:
    """Return the links of each pair in both directions.

    `maps` are those of the first.
    """
    from regard.data.pairs import Pair
    from regard.maps.links import (
        agreement,
        format_pharaoh,
        grow_diag_final_and,
        intersection,
        link_strongest,
        transpose_links,
        union,
    )

    reversed_pairs = [Pair(pair.target, pair.source, pair.place) for pair in pairs]
    forward, backward = (
        _align_pairs(runs[0], pairs, maps),
        _align_pairs(runs[1], reversed_pairs),
    )
    weights_of_pairs = [
        (forward_alignment.weights, backward_alignment.weights)
        for forward_alignment, backward_alignment in zip(forward, backward, strict=True)
    ]
    if join == "agreement":
        return [format_pharaoh(agreement(*maps)) for maps in weights_of_pairs]
    method = {
        "intersection": intersection,
        "union": union,
        "grow-diag-final-and": grow_diag_final_and,
    }[join]
    return [
        format_pharaoh(
            method(
                link_strongest(forward_alignment),
                transpose_links(link_strongest(backward_alignment)),
            )
        )
        for forward_alignment, backward_alignment in weights_of_pairs
    ]


def aer(
    links_file: Annotated[
        Path, Parameter(name="FOUND", help="Links as `regard align` prints them.")
    ],
    gold: Annotated[
        Path,
        Parameter(
            name="GOLD",
            help="Gold links: lines of i-j (sure) and i?j (possible), or .jsonl with lists `sure` and `possible`.",
        ),
    ],
    /,
) -> None:
    """Score word alignments against gold ones.

    Alignment error rate, precision and recall, in per cent.
    """
    from regard.data.pairs import read_gold, read_links
    from regard.maps.links import score_links

    links, truth = read_links(links_file), read_gold(gold)
    if len(links) != len(truth):
        raise InputError(
            f"{links_file} has {len(links)} lines, {gold} has {len(truth)}; expected equally many"
        )
    scores = score_links(links, truth)
    rows = {"aer": scores.aer, "precision": scores.precision, "recall": scores.recall}
    say(table({name: f"{100 * share:.2f}" for name, share in rows.items()}))
