"""`regard generate`."""

import json
from typing import Annotated, Literal

from cyclopts import Parameter

from regard.cli.loading import loading
from regard.cli.options import Drawing, Json, Opening, Piped, RunFolder, check_source, searching
from regard.cli.output import say

Prompts = Annotated[str, Parameter(name="PROMPT", help="What the text begins with. None: nothing.")]
OWN, AS_THEY_ARE = Drawing(), Opening()


def generate(
    run: RunFolder,
    /,
    *prompts: Prompts,
    asked: Drawing = OWN,
    tokens: Annotated[int, Parameter(help="The most tokens to write behind each prompt.")] = 100,
    beyond: Annotated[
        Literal["stop", "slide"] | None,
        Parameter(help="Where a text outgrows the model's context: end it, or read its last part anew and go on."),
    ] = None,
    opening: Opening = AS_THEY_ARE,
    json_: Json = False,
    piped: Piped = False,
) -> None:
    """Go on from prompts with a language model, each prompt printed with what follows it."""
    asked.check()
    check_source(prompts, piped)
    with loading():
        from regard.cli.sampled import drawn
        from regard.cli.stream import chunks, standard_input
        from regard.runs.load import load
        from regard.tasks.language_model.run import LanguageModelRun

        loaded = load(run, allow_missing=opening.allow_missing, int8=opening.int8, task=LanguageModelRun)
    search = drawn(loaded.config.search, asked) or loaded.config.search.searching(asked.beam or 1)
    for batch in chunks(standard_input()) if piped else [list(prompts) or [""]]:
        with searching(asked):
            found = loaded.generate(batch, tokens=tokens, search=search, n_best=asked.n_best, beyond=beyond)
        for continuation in (each for continuations in found for each in continuations):
            whole = continuation.prompt + continuation.text
            say(json.dumps(continuation.to_json(), ensure_ascii=False) if json_ else whole)
