"""`regard embed`."""

import json
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from regard.cli.loading import loading
from regard.cli.options import AllowMissing, Piped, RunFolder, check_source
from regard.cli.output import say
from regard.errors import InputError

Texts = Annotated[str, Parameter(name="TEXT", help="What to embed. None: the lines of standard input.")]
Pool = Literal["mean", "first"]


def embed(
    run: RunFolder,
    /,
    *texts: Texts,
    pool: Annotated[Pool, Parameter(help="The mean of a text's states, or the first.")] = "mean",
    words: Annotated[bool, Parameter(negative="", show_default=False, help="Of ELMo, a vector for each word.")] = False,
    allow_missing: AllowMissing = False,
    piped: Piped = False,
) -> None:
    """Print a vector for each text, as a line of JSON: {"text": ..., "vector": [...]}; with --words one for each of its
    words, {"text": ..., "words": [{"word": ..., "vector": [...]}]}."""
    check_source(texts, piped)
    with loading():
        from regard.cli.stream import parts
        from regard.runs.load import load

        loaded = load(run, allow_missing=allow_missing)
    for some in parts(texts):
        for text, found in zip(some, _embedded(loaded, run, list(some), pool, words), strict=True):
            say(json.dumps({"text": text} | found, ensure_ascii=False))


def _embedded(loaded: Any, run: RunFolder, texts: list[str], pool: Pool, words: bool) -> list[dict[str, Any]]:
    """What is told of each text. Raises InputError for a run that has no vectors, or not these."""
    from regard.runs.load import expect
    from regard.tasks.bidirectional_language_model.run import ElmoRun
    from regard.tasks.masked_language_model.run import MaskedLanguageModelRun

    if isinstance(loaded, ElmoRun):
        if pool != "mean":
            raise InputError("--pool first is of models whose first state is a mark; ELMo's vectors are of words")
        if words:
            return [{"words": each.to_json()} for each in loaded.words(texts)]
        return [{"vector": vector} for vector in loaded.embed(texts).tolist()]
    if words:
        raise InputError("--words is given; of this run's states it is not known which word each is of")
    return [
        {"vector": vector} for vector in expect(loaded, MaskedLanguageModelRun, run).embed(texts, pool=pool).tolist()
    ]
