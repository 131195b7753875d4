"""`regard evaluate`."""

import json
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from regard.cli.options import AllowMissing, Asked, Beam, Json, RunFolder, check_search, searching
from regard.cli.output import say, table


def evaluate(
    run: RunFolder,
    /,
    *files: Annotated[
        Path,
        Parameter(
            name="FILES", help="Source and target text, or one .tsv, .csv or .jsonl table. Default: the run's test set."
        ),
    ],
    columns: Annotated[str, Parameter(help="A table's two columns: names, or numbers from 1.")] = "source,target",
    skip_bad: Annotated[
        bool, Parameter(negative="", show_default=False, help="Leave out bad records and count them.")
    ] = False,
    beam: Beam = None,
    allow_missing: AllowMissing = False,
    json_: Json = False,
) -> None:
    """Score a run on its test set, or on your files."""
    check_search(beam)
    from regard.cli.files import read_pairs
    from regard.runs import load

    pairs = read_pairs(files, columns, skip_bad) if files else None
    loaded = load(run, allow_missing=allow_missing)
    with searching(Asked(beam)):
        figures = loaded.evaluate(pairs, beam=beam)
    say(json.dumps(figures) if json_ else table(figures))
