"""Commands of language models: `regard generate` and `regard fill`."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from regard.cli.options import (
    AllowMissing,
    AnyFolder,
    Json,
    LoadFlags,
    Piped,
    RunFolder,
    SearchFlags,
    check_source,
)
from regard.cli.output import say, say_json, warn, warn_of_missing
from regard.cli.standard_input import pause_collection
from regard.errors import InputError, quote

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


DEFAULT_SEARCH, DEFAULT_CONTINUATION, DEFAULT_LOADING = (
    SearchFlags(),
    ContinuationFlags(),
    LoadFlags(),
)


def generate(
    run: AnyFolder,
    /,
    *prompts: Prompts,
    flags: SearchFlags = DEFAULT_SEARCH,
    continuation: ContinuationFlags = DEFAULT_CONTINUATION,
    weights: LoadFlags = DEFAULT_LOADING,
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
    with pause_collection():
        from regard.cli.predict import iterate_predictions
        from regard.hub.open_run import open_run
        from regard.tasks.capabilities import missing_capability

        loaded = open_run(run, allow_missing=weights.allow_missing, int8=weights.int8)
        if "tokens" not in loaded.supports.get("predict", ()):
            raise missing_capability(loaded, "continue prompts", "characters-gpt2", run)
    options = replace(
        flags.options(), tokens=continuation.tokens, beyond=continuation.beyond
    )
    loaded.check_supported("predict", options)
    first = print_continuations(
        loaded,
        iterate_predictions(loaded, () if piped else prompts or ("",), options),
        as_json=json_,
    )
    if attention is not None:
        paths = draw_attention(loaded, *first, attention)
        if not json_:
            say(f"The picture is {paths[0]}.")


def check_picture(path: Path, prompts: int, *, piped: bool) -> None:
    """Raise InputError for several prompts, or a name that no picture can have."""
    if piped or prompts > 1:
        raise InputError("--attention draws the continuation of one prompt; give one")
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(
            f"{path}: --attention writes a picture; give a name ending in {', '.join(SUFFIXES)}"
        )


def draw_attention(
    run: "Run[Any, Any]", prompt: Any, best: Any, path: Path
) -> list[Path]:
    """Write what each token of a continuation attends to.

    Raises:
        InputError: The continuation has no token, or the run has no attention.
    """
    from regard.maps.lookups import label_sinks

    if not best.ids:
        raise InputError(
            "the continuation has no token, so there is no attention to draw; write another prompt"
        )
    attribution = run.attribute(prompt, target_tokens=best.ids)
    named = tuple(
        item if any("sink" in name for name in item.others) else label_sinks(item)
        for item in attribution.lookups
    )
    return replace(attribution, lookups=named).write(path)


def print_continuations(
    run: "Run[Any, Prediction]",
    predicted: "Iterable[tuple[Any, Prediction]]",
    *,
    as_json: bool,
) -> tuple[Any, Any]:
    """Print continuations as they arrive, then the numbers of missing phrases.

    Returns:
        The first prompt and its best continuation.
    """
    from regard.cli.predict import list_ranked

    first = None, None
    number, missing = 0, Counter[str]()
    for number, (prompt, best) in enumerate(predicted, 1):
        warn(f"prompt {number}", run.warnings(prompt))
        missing.update(list_ranked(best)[0].missing)
        first = (prompt, best) if number == 1 else first
        for item in list_ranked(best):
            record = run.record(prompt) | item.to_json()
            del record["alternatives"]
            if as_json:
                say_json(record)
                continue
            for line in item.lines():
                say(line)
    warn_of_missing(missing, number)
    return first


FillTexts = Annotated[
    str,
    Parameter(name="TEXT", help="Text with blanks. None: the lines of standard input."),
]


def fill(
    run: RunFolder,
    /,
    *texts: FillTexts,
    best: Annotated[
        int, Parameter(help="How many ways to fill each blank, the most likely first.")
    ] = 5,
    blank: Annotated[str, Parameter(help="The text of a blank.")] = "[MASK]",
    allow_missing: AllowMissing = False,
    json_: Json = False,
    piped: Piped = False,
) -> None:
    """Fill the blanks of texts.

    For each blank: its number, the probability of a token, the token and the
    text with it, the most likely first.
    """
    check_source(texts, piped)
    with pause_collection():
        from regard.cli.standard_input import iterate_texts
        from regard.runs.load import load
        from regard.tasks.capabilities import Fills, require_capability

        opened = load(run, allow_missing=allow_missing)
        loaded = require_capability(opened, Fills, run)
    for chunk in iterate_texts(texts):
        for text, blanks in zip(
            chunk, loaded.fill(chunk, best=best, blank=blank), strict=True
        ):
            warn(quote(text), opened.warnings(text))
            if json_:
                blanks_json = [[way.to_json() for way in ways] for ways in blanks]
                say_json({"text": text, "blanks": blanks_json})
                continue
            for number, way in (
                (number, way) for number, ways in enumerate(blanks, 1) for way in ways
            ):
                say(f"{number}\t{way.probability:.4f}\t{way.token}\t{way.text}")
