"""`regard embed`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from regard.cli.loading import loading
from regard.cli.options import AllowMissing, Piped, RunFolder, check_source
from regard.cli.output import say_json, warn
from regard.errors import quoted

Texts = Annotated[str, Parameter(name="TEXT", help="Texts to embed. None: the lines of standard input.")]
Pool = Literal["mean", "first"]


def embed(
    run: RunFolder,
    /,
    *texts: Texts,
    pool: Annotated[
        Pool | None,
        Parameter(
            help="The mean of a text's states, or the first. Default: as a sentence-transformers folder, or mean."
        ),
    ] = None,
    prompt: Annotated[
        str | None, Parameter(help="Of a sentence-transformers folder, the name of the prompt in front of each text.")
    ] = None,
    words: Annotated[bool, Parameter(negative="", show_default=False, help="Of ELMo, a vector for each word.")] = False,
    allow_missing: AllowMissing = False,
    piped: Piped = False,
) -> None:
    """Print a vector for each text, or for its words.

    One line of JSON each: {"text": ..., "vector": [...]}; with --words
    {"text": ..., "words": [{"word": ..., "vector": [...]}]}.
    """
    check_source(texts, piped)
    chosen = {name: value for name, value in (("pool", pool), ("prompt", prompt)) if value is not None}
    with loading():
        from regard.cli.stream import parts
        from regard.hub.opening import open_run

        loaded = open_run(run, allow_missing=allow_missing)
    for some in parts(texts):
        for text, found in zip(some, vectors(loaded, run, some, words, **chosen), strict=True):
            warn(quoted(text), loaded.warnings(text))
            say_json({"text": text} | found)


def vectors(run: Any, path: Path, texts: Sequence[str], words: bool, **chosen: Any) -> list[dict[str, Any]]:
    """The vector of each text, or those of its words. Raises InputError for a run without embeddings, and for a prompt
    of a run without prompts."""
    from regard.tasks.capabilities import EmbedsPrompted, EmbedsTexts, EmbedsWords, capable

    if words:
        return [{"words": each.to_json()} for each in capable(run, EmbedsWords, path).embed_words(texts)]
    found: Any = capable(run, EmbedsPrompted if "prompt" in chosen else EmbedsTexts, path)
    return [{"vector": vector} for vector in found.embed(texts, **chosen).tolist()]
