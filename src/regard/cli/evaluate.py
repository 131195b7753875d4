"""Commands that score: `regard evaluate` and `regard score`."""

import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from regard.cli.options import (
    AllowMissing,
    Json,
    LoadFlags,
    RunFolder,
    check_flags,
    derive_flags,
)
from regard.cli.output import say, say_json, table, warn
from regard.cli.standard_input import pause_collection
from regard.tasks.options import EvaluationOptions

if TYPE_CHECKING:
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


@derive_flags(EvaluationOptions, "Evaluation", 2)
@dataclass(frozen=True)
class EvaluationFlags:
    """Flags of an evaluation; without a flag the run's own setting applies."""

    columns: str | None = None
    skip_bad: bool = False
    beam: int | None = None
    cache: tuple[int, float, float] | None = None


DEFAULT_FLAGS = EvaluationFlags()
DEFAULT_LOADING = LoadFlags()


def evaluate(
    run: RunFolder,
    /,
    *files: Files,
    flags: EvaluationFlags = DEFAULT_FLAGS,
    weights: LoadFlags = DEFAULT_LOADING,
    json_: Json = False,
) -> None:
    """Score a run on its test set, or on your files."""
    options = EvaluationOptions(**vars(flags))
    check_flags(EvaluationOptions, vars(flags))
    options.check()
    with pause_collection():
        from regard.metrics import describe_units
        from regard.runs.load import load
        from regard.tasks.run import describe_examples, describe_search
        from regard.training.devices import choose_own_accelerator
        from regard.training.progress import Progress

        choose_own_accelerator()
        loaded = load(run, allow_missing=weights.allow_missing, int8=weights.int8)
    loaded.check_supported("evaluate", options)
    first = os.environ.get("RANK", "0") == "0"  # of several processes one speaks
    with (
        divide_among_processes(),
        Progress(steps=0, interval=1, visible=first).show_elapsed("scoring"),
    ):
        examples = _read(loaded, files, options) if files else None
        figures = loaded.evaluate(examples, options)
    if not first:
        return
    of_files = (
        None
        if examples is None
        else describe_examples(examples, ", ".join(map(str, files)), loaded.unit)
    )
    for line in (
        of_files,
        describe_search(loaded, options),
        loaded.convention(),
        describe_units(figures),
    ):
        if line:
            print(f"regard: {line}", file=sys.stderr)
    say_json(figures) if json_ else say(table(figures))


def divide_among_processes() -> AbstractContextManager[None]:
    """Return the context in which processes that torchrun started divide an evaluation.

    Of one process nothing.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return nullcontext()
    from regard.training.processes import ProcessGroup
    from regard.work import divide_among

    return divide_among(ProcessGroup())


def _read(
    run: "Run[Any, Any]", files: Sequence[Path], options: "EvaluationOptions"
) -> Any:
    """Return the examples of the files.

    Raises InputError as `run.read`, which names the options for columns and bad
    records.
    """
    from regard.data.rows import BadRecord, MissingColumns

    try:
        return run.read(files, options)
    except MissingColumns as error:
        names = ",".join(key.upper() for key in error.keys or ("source", "target"))
        raise error.advised(f"name yours with --columns {names}") from error
    except BadRecord as error:
        raise error.advised("--skip-bad") from error


def score(
    run: RunFolder,
    /,
    *,
    source: Annotated[Path, Parameter(help="Sources, one a line.")],
    target: Annotated[Path, Parameter(help="The target of each, line by line.")],
    allow_missing: AllowMissing = False,
    json_: Json = False,
) -> None:
    """Print the log-probability of given targets.

    By the natural logarithm, the end of the target included.
    """
    from regard.data.pairs import read_parallel
    from regard.runs.load import load
    from regard.tasks.capabilities import Scores, require_capability, warn_pair

    pairs = read_parallel(source, target)
    loaded = require_capability(load(run, allow_missing=allow_missing), Scores, run)
    for pair in pairs:
        warn(pair.place, warn_pair(loaded, pair))
    for pair, tokens in zip(pairs, loaded.score(pairs), strict=True):
        total = sum(tokens)
        record = {
            "source": pair.source,
            "target": pair.target,
            "score": total,
            "tokens": tokens,
        }
        say_json(record) if json_ else say(f"{total:.4f}")
