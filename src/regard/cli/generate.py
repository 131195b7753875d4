"""Commands of language models: `regard generate` and `regard fill`."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.main import (
    LoadFlags,
    Piped,
    SearchFlags,
    check_source,
    iterate_texts,
    pause_collection,
    read_predict_options,
    say,
    say_json,
    warn,
)
from regard.cli.predict import iterate_predictions, list_ranked
from regard.errors import InputError, quote

if TYPE_CHECKING:
    from regard.tasks.run import Run

DEFAULT_SEARCH, DEFAULT_LOADING = SearchFlags(), LoadFlags()
PICTURES = (".html", ".png", ".svg", ".pdf")


def generate(
    run: Path,
    /,
    *prompts: str,
    flags: SearchFlags = DEFAULT_SEARCH,
    attention: Path | None = None,
    weights: LoadFlags = DEFAULT_LOADING,
    json_: bool = False,
    piped: Piped = False,
) -> None:
    """Continue prompts with a language model.

    RUN is a trained run or any model of transformers, of which an
    encoder-decoder writes the output for each text.

    Args:
        run: Folder of a trained run or of a transformers model, or its name on the hub,
            OWNER/NAME.
        prompts: The beginning of a text, printed with its continuation. None: nothing.
        attention: Also write what each token of the continuation attends to, in the
            prompt and in what was generated: a page or a picture, a name ending in
            .html, .png, .svg or .pdf.
        json_: Print JSON.
        piped: The lines of standard input.
    """
    options = read_predict_options(flags)
    check_source(prompts, piped)
    if attention is not None and (piped or len(prompts) > 1):
        raise InputError("--attention draws the continuation of one prompt; give one")
    if attention is not None and attention.suffix.lower() not in PICTURES:
        raise InputError(
            f"{attention}: --attention writes a picture; give a name ending in "
            f"{', '.join(PICTURES)}"
        )
    with pause_collection():
        from regard.hub.open_run import open_run
        from regard.tasks.run import missing_capability

        loaded = open_run(run, allow_missing=weights.allow_missing, int8=weights.int8)
        if "tokens" not in loaded.supports.get("predict", ()):
            raise missing_capability(loaded, "continue prompts", "characters-gpt2", run)
    loaded.check_supported("predict", options)
    texts = () if piped else prompts or ("",)
    number, first = 0, None
    for prompt, best in iterate_predictions(loaded, texts, options):
        first, number = first or (prompt, best), number + 1
        warn(f"prompt {number}", loaded.warnings(prompt))
        ranked = list_ranked(best)
        for item in ranked:
            record = loaded.record(prompt) | item.to_json()
            del record["alternatives"]
            say_json(record) if json_ else say("\n".join(item.lines()))
    if attention is not None and first is not None:
        path = draw_continuation(loaded, *first, attention)
        if not json_:
            say(f"The picture is {path}.")


def draw_continuation(run: "Run[Any, Any]", prompt: Any, best: Any, path: Path) -> Path:
    """Write what each token of a continuation attends to.

    Raises:
        InputError: The continuation has no token, or the run lacks attention.
    """
    from regard.maps.lookups import label_sinks

    if not best.ids:
        raise InputError(
            "the continuation has no token, so there is no attention to draw; write "
            "another prompt"
        )
    attribution, lookups = run.attribute(prompt, target_tokens=best.ids), []
    for item in attribution.lookups:
        has_sinks = any("sink" in name for name in item.alternatives)
        lookups.append(item if has_sinks else label_sinks(item))
    return replace(attribution, lookups=tuple(lookups)).write(path)


def fill(
    run: Path,
    /,
    *texts: str,
    best: int = 5,
    blank: str = "[MASK]",
    allow_missing: bool = False,
    json_: bool = False,
    piped: Piped = False,
) -> None:
    """Predict the masked words of texts.

    For each masked word: its number, the probability of a token, the token and the
    text with it, the most likely first.

    Args:
        run: Folder of a trained run or of a published model, or its name on the hub.
        texts: Texts. None: the lines of standard input.
        best: How many tokens for each masked word, the most likely first.
        blank: The mark of a masked word in a text.
        allow_missing: Initialize parameters that the weights lack.
        json_: Print JSON.
        piped: The lines of standard input.
    """
    check_source(texts, piped)
    with pause_collection():
        from regard.runs.run_file import load
        from regard.tasks.run import require_method

        loaded: Any = load(run, allow_missing=allow_missing)
        fill_blanks = require_method(loaded, "fill", run)
    for chunk in iterate_texts(texts):
        results = fill_blanks(chunk, best=best, blank=blank)
        for text, blanks in zip(chunk, results, strict=True):
            warn(quote(text), loaded.warnings(text))
            if json_:
                ways = [[way.to_json() for way in ways] for ways in blanks]
                say_json({"text": text, "blanks": ways})
                continue
            for number, ways in enumerate(blanks, 1):
                for way in ways:
                    probability = f"{way.probability:.4f}"
                    say(f"{number}\t{probability}\t{way.token}\t{way.text}")
