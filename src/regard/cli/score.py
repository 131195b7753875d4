"""`regard score`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from regard.cli.options import AllowMissing, Json, RunFolder
from regard.cli.output import say, say_json, warn


def score(
    run: RunFolder,
    /,
    *,
    source: Annotated[Path, Parameter(help="Sources, one a line.")],
    target: Annotated[Path, Parameter(help="The target of each, line by line.")],
    allow_missing: AllowMissing = False,
    json_: Json = False,
) -> None:
    """Print the log-probability of given targets.

    By the natural logarithm, the end of the target included.
    """
    from regard.data.readers import read_parallel
    from regard.runs.load import load
    from regard.tasks.capabilities import Scores, capable, pair_warnings

    pairs = read_parallel(source, target)
    loaded = capable(load(run, allow_missing=allow_missing), Scores, run)
    for pair in pairs:
        warn(pair.place, pair_warnings(loaded, pair))
    for pair, tokens in zip(pairs, loaded.score(pairs), strict=True):
        total = sum(tokens)
        record = {
            "source": pair.source,
            "target": pair.target,
            "score": total,
            "tokens": tokens,
        }
        say_json(record) if json_ else say(f"{total:.4f}")
