"""Commands that predict.

`regard predict`, also of files in parts, and `regard chat`.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from regard.cli.options import (
    BatchFlags,
    Json,
    LoadFlags,
    Piped,
    PredictFlags,
    RunFolder,
    check_source,
)
from regard.cli.output import (
    one_line,
    say,
    say_json,
    table,
    warn,
    warn_of_missing,
    warn_of_unfinished,
)
from regard.cli.standard_input import pause_collection
from regard.errors import InputError
from regard.extras import how_to_install

if TYPE_CHECKING:
    from regard.runs.batch_worker import Worker

    Loaded = tuple[Worker, Mapping[str, str | int]]
    """A worker, and the columns that its rows have in a table by their keys."""

RAY_DATA = "ray", "pandas", "pyarrow"
"""The packages of Ray Data, which Ray alone does not bring."""


def run_batch(
    verb: str,
    run: Path,
    flags: BatchFlags,
    settings: Mapping[str, Any],
    load: "Callable[[], Loaded]",
) -> None:
    """Compute the files in parts and print the totals.

    Raises InputError and RunError as `run_job`.
    """
    from regard.data.files import list_files
    from regard.data.inputs import reader_of
    from regard.data.rows import MissingColumns
    from regard.data.tokens import count_together
    from regard.runs.batch_job import Request, begin, check_format
    from regard.runs.batch_worker import run_job
    from regard.tasks.row_examples import choose_columns
    from regard.training.devices import choose_own_accelerator

    check_format(flags.format)
    lacking = (
        next((package for package in RAY_DATA if find_spec(package) is None), "")
        if flags.on == "ray"
        else ""
    )
    if lacking:
        raise InputError(
            f"--on ray needs {lacking}, which is not installed: {how_to_install('ray')}"
        )
    choose_own_accelerator()
    inputs = [file for path in flags.input for file in list_files(path)]
    worker, columns = load()
    reader = reader_of(choose_columns(columns, flags.columns))
    chosen = {
        name: value
        for name, value in settings.items()
        if value not in (None, False, (), "")
    }
    request = Request(
        verb, run, chosen, inputs, reader, flags.format, flags.part_rows, flags.skip_bad
    )
    assert flags.output is not None
    try:
        job = begin(flags.output, request)
    except MissingColumns as error:
        raise error.advised(
            f"name yours with --columns {','.join(map(str.upper, columns))}"
        ) from error
    if flags.on == "ray":
        from regard.runs.batch_worker import run_on_ray

        totals = run_on_ray(job, partial(_worker, load))
    else:
        with count_together():
            totals = run_job(job, worker)
    if os.environ.get("RANK", "0") == "0":  # of several processes one speaks
        say(table(totals))


def _worker(load: "Callable[[], Loaded]") -> "Worker":
    """Return the worker of an actor, which loads the run again on its node."""
    return load()[0]


if TYPE_CHECKING:
    from regard.tasks.options import PredictOptions
    from regard.tasks.prediction import Prediction, SearchedPrediction
    from regard.tasks.run import Run

PredictTexts = Annotated[
    str,
    Parameter(
        name="TEXT", help="Texts to predict for. None: the lines of standard input."
    ),
]
OtherRuns = Annotated[
    tuple[Path, ...],
    Parameter(
        name="--with",
        negative="",
        show_default=False,
        help="A run with the same tokenizers, for an ensemble. Repeatable.",
    ),
]


@Parameter(name="*")
@dataclass(frozen=True)
class EnsembleFlags(LoadFlags):
    """How a run is loaded, and others that predict with it."""

    with_: OtherRuns = ()


DEFAULT_FLAGS, DEFAULT_ENSEMBLE, NO_FILES = (
    PredictFlags(),
    EnsembleFlags(),
    BatchFlags(),
)


def predict(
    run: RunFolder,
    /,
    *texts: PredictTexts,
    flags: PredictFlags = DEFAULT_FLAGS,
    weights: EnsembleFlags = DEFAULT_ENSEMBLE,
    batch: BatchFlags = NO_FILES,
    json_: Json = False,
    piped: Piped = False,
) -> None:
    """Predict for texts, or for the lines of standard input.

    Standard input is read line by line as it arrives. The rows of files, with
    --input and --output, are computed in parts by any number of processes.
    """
    flags.check()
    if flags.attention and not (json_ or batch.used):
        raise InputError(
            "--attention needs --json; `regard show` draws the attention of one text"
        )
    check_source(texts, piped)
    batch.check(texts, piped)
    if batch.used:
        from regard.cli.predict import run_batch

        settings = {**vars(flags), **vars(weights)}
        return run_batch(
            "predict",
            run,
            batch,
            settings,
            partial(load_predictor, run, flags, weights),
        )
    loaded, options = open_ensemble(run, flags, weights)
    print_predictions(
        loaded, iterate_predictions(loaded, texts, options), options, as_json=json_
    )


def open_ensemble(
    run: Path, flags: PredictFlags, weights: EnsembleFlags
) -> "tuple[Run[Any, Prediction], PredictOptions]":
    """Return the run, with the others of its ensemble, and the options.

    Raises InputError for an unsupported one.
    """
    with pause_collection():
        from regard.runs.load import load
        from regard.tasks.capabilities import Ensembles, require_capability

        loaded = load(run, allow_missing=weights.allow_missing, int8=weights.int8)
        options = flags.options()
        loaded.check_supported("predict", options)
        if weights.with_:
            other_runs = [
                load(
                    prediction_, allow_missing=weights.allow_missing, int8=weights.int8
                )
                for prediction_ in weights.with_
            ]
            loaded = require_capability(loaded, Ensembles, run).ensemble(other_runs)
    return loaded, options


def load_predictor(run: Path, flags: PredictFlags, weights: EnsembleFlags) -> "Loaded":
    """Return the run as the worker of a batch, and its columns."""
    from regard.runs.batch_worker import Predictor
    from regard.tasks.row_examples import input_columns

    loaded, options = open_ensemble(run, flags, weights)
    return Predictor(loaded, options), input_columns(loaded)


def iterate_predictions(
    run: "Run[Any, Prediction]", texts: tuple[str, ...], options: "PredictOptions"
) -> Iterator[tuple[Any, "Prediction"]]:
    """Return each text's example with its prediction.

    Raises InputError for a bad line of standard input, after the predictions before it.
    """
    if texts:
        examples = [
            run.parse(text, f"text {number}") for number, text in enumerate(texts, 1)
        ]
        yield from zip(examples, run.predict(examples, options), strict=True)
        return
    from regard.cli.standard_input import CHUNK, NAME, iterate_chunks, standard_input
    from regard.data.tokens import count_together

    number = 0
    with count_together():
        # What is sampled must not depend on how fast lines arrive, so each is sampled by itself.
        for lines in iterate_chunks(
            standard_input(), limit=1 if run.samples(options) else CHUNK
        ):
            try:
                examples = [
                    run.parse(line, f"{NAME}:{place}")
                    for place, line in enumerate(lines, number + 1)
                ]
                yield from zip(examples, run.predict(examples, options), strict=True)
            except InputError:
                yield from predict_singly(run, lines, options, number)
            number += len(lines)


def predict_singly(
    run: "Run[Any, Prediction]",
    lines: list[str],
    options: "PredictOptions",
    before: int,
) -> Iterator[tuple[Any, "Prediction"]]:
    """Yield predictions for the lines before a bad one.

    Raises:
        InputError: The bad line.
    """
    from regard.cli.standard_input import NAME

    for number, line in enumerate(lines, before + 1):
        example = run.parse(line, f"{NAME}:{number}")
        try:
            (prediction,) = run.predict([example], options)
        except InputError as error:
            raise InputError(
                f"{NAME}:{number}: {str(error).removeprefix('text 1: ')}"
            ) from error
        yield example, prediction


def print_predictions(
    run: "Run[Any, Prediction]",
    predicted: Iterable[tuple[Any, "Prediction"]],
    options: "PredictOptions",
    *,
    as_json: bool,
) -> None:
    """Print predictions as they arrive, then the numbers of unfinished ones and of missing phrases."""
    number = unfinished = 0
    missing = Counter[str]()
    for number, (example, prediction) in enumerate(predicted, 1):
        warn(
            f"text {number}",
            [*run.warnings(example), *run.prediction_warnings(prediction)],
        )
        if as_json:
            say_json(run.record(example) | prediction.to_json())
        else:
            for line in format_prediction(
                number, prediction, 1 if options.mbr else options.n_best
            ):
                say(line)
        for searched in list_ranked(prediction)[:1]:
            unfinished += not searched.finished
            missing.update(searched.missing)
    warn_of_unfinished(unfinished, number)
    warn_of_missing(missing, number)


def format_prediction(number: int, prediction: "Prediction", n_best: int) -> list[str]:
    """Return the lines of a prediction.

    Of several alternatives each with the number of its text and its score.
    """
    searched = list_ranked(prediction)
    if n_best == 1 or not searched:
        return prediction.lines()
    return [
        f"{number}\t{prediction_.score:.4f}\t{line}"
        for prediction_ in searched
        for line in prediction_.lines()
    ]


def list_ranked(prediction: "Prediction") -> "Sequence[SearchedPrediction]":
    """Return a searched prediction and its alternatives, best first.

    Empty for another kind of prediction.
    """
    from regard.tasks.prediction import SearchedPrediction

    return (
        (prediction, *prediction.alternatives)
        if isinstance(prediction, SearchedPrediction)
        else ()
    )


DEFAULT_FLAGS = PredictFlags()


def chat(run: RunFolder, /, *, flags: PredictFlags = DEFAULT_FLAGS) -> None:
    """Reply to each line that you type, in its context.

    A blank line begins a new conversation.
    """
    flags.check()
    if flags.n_best > 1 and not flags.mbr:
        raise InputError(
            "--n-best gives several replies, a chat has one; add --least-risk to choose among them"
        )
    with pause_collection():
        from regard.cli.standard_input import NAME, iterate_chunks, standard_input
        from regard.runs.load import load
        from regard.tasks.capabilities import Converses, require_capability

        opened = load(run)
        loaded = require_capability(opened, Converses, run)
        conversation = loaded.conversation(flags.options())
    for number, (line,) in enumerate(iterate_chunks(standard_input(), limit=1), 1):
        if line.strip():
            warn(f"{NAME}:{number}", opened.warnings(line))
            say(one_line(conversation.reply(line, f"{NAME}:{number}").text))
        else:
            conversation = loaded.conversation(flags.options())
