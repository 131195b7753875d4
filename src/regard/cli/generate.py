"""`regard generate`."""

from dataclasses import replace
from typing import Annotated, Literal

from cyclopts import Parameter

from regard.cli.loading import loading
from regard.cli.options import Json, LoadFlags, Piped, RunFolder, SearchFlags, check_source
from regard.cli.output import say, say_json, warn

Prompts = Annotated[
    str, Parameter(name="PROMPT", help="The beginning of a text, printed with its continuation. None: nothing.")
]
OWN, STORED = SearchFlags(), LoadFlags()


def generate(
    run: RunFolder,
    /,
    *prompts: Prompts,
    flags: SearchFlags = OWN,
    tokens: Annotated[int, Parameter(help="The most tokens of each continuation.")] = 100,
    beyond: Annotated[
        Literal["stop", "slide"] | None,
        Parameter(help="Where a text outgrows the model's context: end it, or read its last part anew and continue."),
    ] = None,
    weights: LoadFlags = STORED,
    json_: Json = False,
    piped: Piped = False,
) -> None:
    """Continue prompts with a language model."""
    flags.check()
    check_source(prompts, piped)
    with loading():
        from regard.cli.predict import predictions, ranked
        from regard.runs.load import load
        from regard.tasks.capabilities import incapable

        loaded = load(run, allow_missing=weights.allow_missing, int8=weights.int8)
        if "tokens" not in loaded.supports.get("predict", ()):
            raise incapable(loaded, "continue prompts", "characters-gpt2", run)
    options = replace(flags.options(), tokens=tokens, beyond=beyond)
    predicted = predictions(loaded, () if piped else prompts or ("",), options)
    for number, (prompt, best) in enumerate(predicted, 1):
        warn(f"prompt {number}", loaded.warnings(prompt))
        for each in ranked(best):
            record = loaded.record(prompt) | each.to_json()
            del record["alternatives"]
            if json_:
                say_json(record)
                continue
            for line in each.lines():
                say(line)
