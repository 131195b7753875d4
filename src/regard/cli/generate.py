"""`regard generate`."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from regard.cli.loading import loading
from regard.cli.options import Json, LoadFlags, Piped, RunFolder, SearchFlags, check_source
from regard.cli.output import say, say_json, warn, warn_of_missing

if TYPE_CHECKING:
    from regard.tasks.prediction import Prediction
    from regard.tasks.run import Run

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
        from regard.cli.predict import predictions
        from regard.runs.load import load
        from regard.tasks.capabilities import incapable

        loaded = load(run, allow_missing=weights.allow_missing, int8=weights.int8)
        if "tokens" not in loaded.supports.get("predict", ()):
            raise incapable(loaded, "continue prompts", "characters-gpt2", run)
    options = replace(flags.options(), tokens=tokens, beyond=beyond)
    report(loaded, predictions(loaded, () if piped else prompts or ("",), options), as_json=json_)


def report(run: "Run[Any, Prediction]", predicted: "Iterable[tuple[Any, Prediction]]", *, as_json: bool) -> None:
    """Print continuations as they arrive, then the numbers of missing phrases."""
    from regard.cli.predict import ranked

    number, missing = 0, Counter[str]()
    for number, (prompt, best) in enumerate(predicted, 1):
        warn(f"prompt {number}", run.warnings(prompt))
        missing.update(ranked(best)[0].missing)
        for each in ranked(best):
            record = run.record(prompt) | each.to_json()
            del record["alternatives"]
            if as_json:
                say_json(record)
                continue
            for line in each.lines():
                say(line)
    warn_of_missing(missing, number)
