"""`regard evaluate`."""

import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from regard.cli.loading import loading
from regard.cli.options import Beam, Json, LoadFlags, RunFolder, check_search
from regard.cli.output import say, say_json, table

if TYPE_CHECKING:
    from regard.tasks.options import EvaluationOptions
    from regard.tasks.run import Run

Files = Annotated[
    Path,
    Parameter(
        name="FILES",
        help="Source and target text, or one .tsv, .csv or .jsonl table; of a language model one text, of a model that "
        "fills in blanks documents; of images a folder of classes. Default: the run's test set, or without "
        "one its validation examples.",
    ),
]
SkipBad = Annotated[
    bool,
    Parameter(
        negative="", show_default=False, help="Leave out bad records and count them."
    ),
]
TwoColumns = Annotated[
    str | None,
    Parameter(
        show_default=False,
        help="A table's columns, names or numbers from 1: SOURCE,TARGET, TEXT,LABEL, of CoNLL WORD,TAG. Default: "
        "the run's own.",
    ),
]
CacheSettings = Annotated[
    tuple[int, float, float] | None,
    Parameter(
        show_default=False,
        help="Of a language model, with a cache beside it: its states, share and sharpness (2000 0.1 0.3).",
    ),
]
STORED = LoadFlags()


def evaluate(
    run: RunFolder,
    /,
    *files: Files,
    columns: TwoColumns = None,
    skip_bad: SkipBad = False,
    beam: Beam = None,
    cache: CacheSettings = None,
    weights: LoadFlags = STORED,
    json_: Json = False,
) -> None:
    """Score a run on its test set, or on your files."""
    check_search(beam)
    with loading():
        from regard.metrics.units import units_of
        from regard.runs.load import load
        from regard.tasks.evaluation import scored, searched
        from regard.tasks.options import EvaluationOptions
        from regard.training.devices import choose_own_accelerator
        from regard.training.progress import Progress

        choose_own_accelerator()
        opened = load(run, allow_missing=weights.allow_missing, int8=weights.int8)
    options = EvaluationOptions(
        beam=beam, columns=columns, skip_bad=skip_bad, cache=cache
    )
    opened.check_supported("evaluate", options)
    first = os.environ.get("RANK", "0") == "0"  # of several processes one speaks
    with everyone(), Progress(steps=0, every=1, shown=first).elapsed("scoring"):
        examples = _read(opened, files, options) if files else None
        figures = opened.evaluate(examples, options)
    if not first:
        return
    of_files = (
        None
        if examples is None
        else scored(examples, ", ".join(map(str, files)), opened.unit)
    )
    for line in (
        of_files,
        searched(opened, options),
        opened.convention(),
        units_of(figures),
    ):
        if line:
            print(f"regard: {line}", file=sys.stderr)
    say_json(figures) if json_ else say(table(figures))


def everyone() -> AbstractContextManager[None]:
    """The context in which processes that torchrun started divide an evaluation; of one process nothing."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return nullcontext()
    from regard.training.processes import Everyone
    from regard.work import divided_by

    return divided_by(Everyone())


def _read(
    run: "Run[Any, Any]", files: Sequence[Path], options: "EvaluationOptions"
) -> Any:
    """The examples of the files. Raises InputError as `run.read`, which names the options for columns and bad
    records."""
    from regard.data.bad_records import BadRecord, MissingColumns

    try:
        return run.read(files, options)
    except MissingColumns as error:
        names = ",".join(key.upper() for key in error.keys or ("source", "target"))
        raise error.advised(f"name yours with --columns {names}") from error
    except BadRecord as error:
        raise error.advised("--skip-bad") from error
