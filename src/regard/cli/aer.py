"""`regard aer`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from regard.cli.output import say, table
from regard.errors import InputError


def aer(
    found: Annotated[
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
    from regard.data.links import read_gold, read_links
    from regard.maps.links import score_links

    links, truth = read_links(found), read_gold(gold)
    if len(links) != len(truth):
        raise InputError(
            f"{found} has {len(links)} lines, {gold} has {len(truth)}; expected equally many"
        )
    scores = score_links(links, truth)
    rows = {"aer": scores.aer, "precision": scores.precision, "recall": scores.recall}
    say(table({name: f"{100 * share:.2f}" for name, share in rows.items()}))
