"""`regard embed`."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from regard.cli.options import AllowMissing, AnyFolder, BatchFlags, Piped, check_source
from regard.cli.output import say_json, warn
from regard.cli.standard_input import pause_collection
from regard.errors import quote

if TYPE_CHECKING:
    from regard.cli.predict import Loaded

Texts = Annotated[
    str,
    Parameter(name="TEXT", help="Texts to embed. None: the lines of standard input."),
]
Pool = Literal["mean", "first"]
NO_FILES = BatchFlags()


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
    batch: BatchFlags = NO_FILES,
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
        from regard.cli.predict import run_batch

        load = partial(load_embedder, run, words, chosen, allow_missing)
        return run_batch(
            "embed",
            run,
            batch,
            {**chosen, "words": words, "allow_missing": allow_missing},
            load,
        )
    from regard.cli.standard_input import iterate_texts

    loaded = open_model(run, allow_missing)
    for chunk in iterate_texts(texts):
        for text, vectors in zip(
            chunk, compute_vectors(loaded, run, chunk, words, **chosen), strict=True
        ):
            warn(quote(text), loaded.warnings(text))
            say_json({"text": text} | vectors)


def open_model(run: Path, allow_missing: bool) -> Any:
    """Return the run, or the published model."""
    with pause_collection():
        from regard.hub.open_run import open_run

        return open_run(run, allow_missing=allow_missing)


def load_embedder(
    run: Path, words: bool, chosen: Mapping[str, str], allow_missing: bool
) -> "Loaded":
    """Return the run as the worker of a batch, and the column of its texts."""
    from regard.runs.batch_worker import Embedder
    from regard.tasks.capabilities import require_capability

    loaded = open_model(run, allow_missing)
    require_capability(loaded, choose_capability(words, chosen), run)
    return Embedder(
        lambda texts: compute_vectors(loaded, run, texts, words, **chosen)
    ), {"text": "text"}


def choose_capability(words: bool, chosen: Mapping[str, str]) -> type[Any]:
    """Return the capability that the options require of a run."""
    from regard.tasks.capabilities import EmbedsPrompted, EmbedsTexts, EmbedsWords

    if words:
        return EmbedsWords
    return EmbedsPrompted if "prompt" in chosen else EmbedsTexts


def compute_vectors(
    run: Any, path: Path, texts: Sequence[str], words: bool, **chosen: Any
) -> list[dict[str, Any]]:
    """Return the vector of each text, or those of its words.

    Raises InputError for a run without embeddings, and for a prompt of a run without
    prompts.
    """
    from regard.tasks.capabilities import require_capability

    vectors = require_capability(run, choose_capability(words, chosen), path)
    if words:
        return [
            {"words": words_of_text.to_json()}
            for words_of_text in vectors.embed_words(texts)
        ]
    return [{"vector": vector} for vector in vectors.embed(texts, **chosen).tolist()]
