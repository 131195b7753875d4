"""`regard embed`."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from regard.cli.loading import loading
from regard.cli.options import AllowMissing, AnyFolder, BatchFlags, Piped, check_source
from regard.cli.output import say_json, warn
from regard.errors import quoted

if TYPE_CHECKING:
    from regard.cli.batch import Loaded

Texts = Annotated[
    str,
    Parameter(name="TEXT", help="Texts to embed. None: the lines of standard input."),
]
Pool = Literal["mean", "first"]
LINE_BY_LINE = BatchFlags()


def embed(
    run: AnyFolder,
    /,
    *texts: Texts,
    pool: Annotated[
        Pool | None,
        Parameter(
            help="The mean of a text's states, or the first. Default: as a sentence-transformers folder, or mean."
        ),
    ] = None,
    prompt: Annotated[
        str | None,
        Parameter(
            help="Of a sentence-transformers folder, the name of the prompt in front of each text."
        ),
    ] = None,
    words: Annotated[
        bool,
        Parameter(
            negative="", show_default=False, help="Of ELMo, a vector for each word."
        ),
    ] = False,
    allow_missing: AllowMissing = False,
    batch: BatchFlags = LINE_BY_LINE,
    piped: Piped = False,
) -> None:
    """Print a vector for each text, or for its words.

    One line of JSON each: {"text": ..., "vector": [...]}; with --words
    {"text": ..., "words": [{"word": ..., "vector": [...]}]}.
    """
    check_source(texts, piped)
    batch.check(texts, piped)
    chosen = {
        name: value
        for name, value in (("pool", pool), ("prompt", prompt))
        if value is not None
    }
    if batch.used:
        from regard.cli.batch import run_batch

        load = partial(embedder, run, words, chosen, allow_missing)
        return run_batch(
            "embed",
            run,
            batch,
            {**chosen, "words": words, "allow_missing": allow_missing},
            load,
        )
    from regard.cli.stream import parts

    loaded = opened(run, allow_missing)
    for some in parts(texts):
        for text, found in zip(
            some, vectors(loaded, run, some, words, **chosen), strict=True
        ):
            warn(quoted(text), loaded.warnings(text))
            say_json({"text": text} | found)


def opened(run: Path, allow_missing: bool) -> Any:
    """The run, or the published model."""
    with loading():
        from regard.hub.opening import open_run

        return open_run(run, allow_missing=allow_missing)


def embedder(
    run: Path, words: bool, chosen: Mapping[str, str], allow_missing: bool
) -> "Loaded":
    """The run as the worker of a batch, and the column of its texts."""
    from regard.runs.batch_prediction.workers import Embedder
    from regard.tasks.capabilities import capable

    loaded = opened(run, allow_missing)
    capable(loaded, required(words, chosen), run)
    return Embedder(lambda texts: vectors(loaded, run, texts, words, **chosen)), {
        "text": "text"
    }


def required(words: bool, chosen: Mapping[str, str]) -> type[Any]:
    """The capability that the options require of a run."""
    from regard.tasks.capabilities import EmbedsPrompted, EmbedsTexts, EmbedsWords

    if words:
        return EmbedsWords
    return EmbedsPrompted if "prompt" in chosen else EmbedsTexts


def vectors(
    run: Any, path: Path, texts: Sequence[str], words: bool, **chosen: Any
) -> list[dict[str, Any]]:
    """The vector of each text, or those of its words. Raises InputError for a run without embeddings, and for a prompt
    of a run without prompts."""
    from regard.tasks.capabilities import capable

    found = capable(run, required(words, chosen), path)
    if words:
        return [{"words": each.to_json()} for each in found.embed_words(texts)]
    return [{"vector": vector} for vector in found.embed(texts, **chosen).tolist()]
