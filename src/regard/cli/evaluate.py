"""`regard evaluate`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from regard.cli.options import AllowMissing, Asked, Beam, Json, RunFolder, check_search, searching
from regard.cli.output import say, table
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.tasks.language_model.run import LanguageModelRun

Files = Annotated[
    Path,
    Parameter(
        name="FILES",
        help="Source and target text, or one .tsv, .csv or .jsonl table; of a language model one text. Default: the "
        "run's test set.",
    ),
]
SkipBad = Annotated[bool, Parameter(negative="", show_default=False, help="Leave out bad records and count them.")]
CacheSettings = Annotated[
    tuple[int, float, float] | None,
    Parameter(
        show_default=False,
        help="Of a language model, with a cache beside it: its states, share and sharpness (2000 0.1 0.3).",
    ),
]


def evaluate(
    run: RunFolder,
    /,
    *files: Files,
    columns: Annotated[str, Parameter(help="A table's two columns: names, or numbers from 1.")] = "source,target",
    skip_bad: SkipBad = False,
    beam: Beam = None,
    cache: CacheSettings = None,
    allow_missing: AllowMissing = False,
    json_: Json = False,
) -> None:
    """Score a run on its test set, or on your files."""
    check_search(beam)
    from regard.cli.files import read_pairs
    from regard.runs import load
    from regard.tasks.language_model.run import LanguageModelRun
    from regard.tasks.pointing.run import PointingRun
    from regard.tasks.text_to_texts.run import TextToTextsRun

    loaded = load(run, allow_missing=allow_missing)
    if isinstance(loaded, LanguageModelRun):
        figures = _of_text(loaded, files, beam, cache)
    elif isinstance(loaded, PointingRun):
        if files or beam is not None:
            raise InputError("this run points to elements of generated sets; it is measured on its own test set alone")
        figures = loaded.evaluate()
    elif isinstance(loaded, TextToTextsRun):
        if files or cache is not None:
            raise InputError("this run writes several languages; it is measured on its run file's test set alone")
        with searching(Asked(beam)):
            figures = loaded.evaluate(beam=beam)
    else:
        if cache is not None:
            raise InputError("--cache is for language models; this run makes texts of texts")
        pairs = read_pairs(files, columns, skip_bad) if files else None
        with searching(Asked(beam)):
            figures = loaded.evaluate(pairs, beam=beam)
    say(json.dumps(figures) if json_ else table(figures))


def _of_text(
    run: "LanguageModelRun", files: Sequence[Path], beam: int | None, cache: tuple[int, float, float] | None
) -> dict[str, float]:
    """Of one file of text, or the test set. Raises InputError for what a language model has no use for."""
    if beam is not None:
        raise InputError("--beam is for runs that write texts; a language model is measured on the text that is there")
    if len(files) > 1:
        raise InputError(f"{len(files)} files given; expected one text for a language model")
    from regard.inference.cache import Cache

    texts = [text for file in files for text in run.config.data.read(str(file))]
    try:
        return run.evaluate(texts or None, cache=None if cache is None else Cache(*cache))
    except ValueError as error:
        raise InputError(str(error)) from error
