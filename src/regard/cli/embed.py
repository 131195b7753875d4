"""`regard embed`."""

import json
from typing import Annotated, Literal

from cyclopts import Parameter

from regard.cli.options import AllowMissing, Piped, RunFolder, check_source
from regard.cli.output import say

Texts = Annotated[str, Parameter(name="TEXT", help="What to embed. None: the lines of standard input.")]


def embed(
    run: RunFolder,
    /,
    *texts: Texts,
    pool: Annotated[Literal["mean", "first"], Parameter(help="The mean of a text's states, or the first.")] = "mean",
    allow_missing: AllowMissing = False,
    piped: Piped = False,
) -> None:
    """Print a vector for each text, as a line of JSON: {"text": ..., "vector": [...]}."""
    check_source(texts, piped)
    from regard.cli.stream import parts
    from regard.runs import load
    from regard.tasks.masked_language_model.run import MaskedLanguageModelRun

    loaded = load(run, allow_missing=allow_missing, task=MaskedLanguageModelRun)
    for some in parts(texts):
        for text, vector in zip(some, loaded.embed(list(some), pool=pool).tolist(), strict=True):
            say(json.dumps({"text": text, "vector": vector}, ensure_ascii=False))
