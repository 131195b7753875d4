"""`regard generate`."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from regard.cli.loading import loading
from regard.cli.options import (
    AnyFolder,
    Json,
    LoadFlags,
    Piped,
    SearchFlags,
    check_source,
)
from regard.cli.output import say, say_json, warn, warn_of_missing
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.tasks.prediction import Prediction
    from regard.tasks.run import Run

Prompts = Annotated[
    str,
    Parameter(
        name="PROMPT",
        help="The beginning of a text, printed with its continuation. None: nothing.",
    ),
]
Attention = Annotated[
    Path | None,
    Parameter(
        show_default=False,
        help="Also write what each token of the continuation attends to, in the prompt and in what was generated: a "
        "page or a picture, a name ending in .html, .png, .svg or .pdf.",
    ),
]
SUFFIXES = (".html", ".png", ".svg", ".pdf")


@Parameter(name="*")
@dataclass(frozen=True)
class ContinuationFlags:
    """The flags of continuations."""

    tokens: Annotated[int, Parameter(help="The most tokens of each continuation.")] = (
        100
    )
    beyond: Annotated[
        Literal["stop", "slide"] | None,
        Parameter(
            help="Where a text outgrows the model's context: end it, or read its last part anew and continue."
        ),
    ] = None
    attention: Attention = None


OWN, WHOLE, STORED = SearchFlags(), ContinuationFlags(), LoadFlags()


def generate(
    run: AnyFolder,
    /,
    *prompts: Prompts,
    flags: SearchFlags = OWN,
    continuation: ContinuationFlags = WHOLE,
    weights: LoadFlags = STORED,
    json_: Json = False,
    piped: Piped = False,
) -> None:
    """Continue prompts with a language model.

    RUN is a trained run or any model of transformers, of which an
    encoder-decoder writes the output for each text.
    """
    flags.check()
    check_source(prompts, piped)
    attention = continuation.attention
    if attention is not None:
        check_picture(attention, len(prompts), piped=piped)
    with loading():
        from regard.cli.predict import predictions
        from regard.hub.opening import open_run
        from regard.tasks.capabilities import incapable

        loaded = open_run(run, allow_missing=weights.allow_missing, int8=weights.int8)
        if "tokens" not in loaded.supports.get("predict", ()):
            raise incapable(loaded, "continue prompts", "characters-gpt2", run)
    options = replace(
        flags.options(), tokens=continuation.tokens, beyond=continuation.beyond
    )
    loaded.check_supported("predict", options)
    first = report(
        loaded,
        predictions(loaded, () if piped else prompts or ("",), options),
        as_json=json_,
    )
    if attention is not None:
        paths = draw(loaded, *first, attention)
        if not json_:
            say(f"The picture is {paths[0]}.")


def check_picture(path: Path, prompts: int, *, piped: bool) -> None:
    """Raises InputError for a picture of several prompts, and for a name that no picture can have."""
    if piped or prompts > 1:
        raise InputError("--attention draws the continuation of one prompt; give one")
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(
            f"{path}: --attention writes a picture; give a name ending in {', '.join(SUFFIXES)}"
        )


def draw(run: "Run[Any, Any]", prompt: Any, best: Any, path: Path) -> list[Path]:
    """Write what each token of a continuation attends to, in the prompt and in what was generated. Raises InputError
    for a continuation without a token, and for a run that attends to nothing."""
    from regard.maps.sinks import separated

    if not best.ids:
        raise InputError(
            "the continuation has no token, so there is no attention to draw; write another prompt"
        )
    found = run.attribute(prompt, target_tokens=best.ids)
    named = tuple(
        each if any("sink" in name for name in each.others) else separated(each)
        for each in found.lookups
    )
    return replace(found, lookups=named).write(path)


def report(
    run: "Run[Any, Prediction]",
    predicted: "Iterable[tuple[Any, Prediction]]",
    *,
    as_json: bool,
) -> tuple[Any, Any]:
    """Print continuations as they arrive, then the numbers of missing phrases, and return the first prompt and its
    best continuation."""
    from regard.cli.predict import ranked

    first = None, None
    number, missing = 0, Counter[str]()
    for number, (prompt, best) in enumerate(predicted, 1):
        warn(f"prompt {number}", run.warnings(prompt))
        missing.update(ranked(best)[0].missing)
        first = (prompt, best) if number == 1 else first
        for each in ranked(best):
            record = run.record(prompt) | each.to_json()
            del record["alternatives"]
            if as_json:
                say_json(record)
                continue
            for line in each.lines():
                say(line)
    warn_of_missing(missing, number)
    return first
