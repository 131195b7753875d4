"""`regard predict`."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from regard.cli.loading import loading
from regard.cli.options import (
    BatchFlags,
    Json,
    LoadFlags,
    Piped,
    PredictFlags,
    RunFolder,
    check_source,
)
from regard.cli.output import say, say_json, warn, warn_of_missing, warn_of_unfinished
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.cli.batch import Loaded
    from regard.tasks.options import PredictOptions
    from regard.tasks.prediction import Prediction, SearchedPrediction
    from regard.tasks.run import Run

Texts = Annotated[
    str,
    Parameter(
        name="TEXT", help="Texts to predict for. None: the lines of standard input."
    ),
]
With = Annotated[
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

    with_: With = ()


OWN, STORED, LINE_BY_LINE = PredictFlags(), EnsembleFlags(), BatchFlags()


def predict(
    run: RunFolder,
    /,
    *texts: Texts,
    flags: PredictFlags = OWN,
    weights: EnsembleFlags = STORED,
    batch: BatchFlags = LINE_BY_LINE,
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
        from regard.cli.batch import run_batch

        settings = {**vars(flags), **vars(weights)}
        return run_batch(
            "predict", run, batch, settings, partial(predictor, run, flags, weights)
        )
    loaded, options = opened(run, flags, weights)
    report(loaded, predictions(loaded, texts, options), options, as_json=json_)


def opened(
    run: Path, flags: PredictFlags, weights: EnsembleFlags
) -> "tuple[Run[Any, Prediction], PredictOptions]":
    """The run, with the others of its ensemble, and the options. Raises InputError for an unsupported one."""
    with loading():
        from regard.runs.load import load
        from regard.tasks.capabilities import Ensembles, capable

        loaded = load(run, allow_missing=weights.allow_missing, int8=weights.int8)
        options = flags.options()
        loaded.check_supported("predict", options)
        if weights.with_:
            others = [
                load(each, allow_missing=weights.allow_missing, int8=weights.int8)
                for each in weights.with_
            ]
            loaded = capable(loaded, Ensembles, run).ensemble(others)
    return loaded, options


def predictor(run: Path, flags: PredictFlags, weights: EnsembleFlags) -> "Loaded":
    """The run as the worker of a batch, and its columns."""
    from regard.runs.batch_prediction.workers import Predictor
    from regard.tasks.row_examples import input_columns

    loaded, options = opened(run, flags, weights)
    return Predictor(loaded, options), input_columns(loaded)


def predictions(
    run: "Run[Any, Prediction]", texts: tuple[str, ...], options: "PredictOptions"
) -> Iterator[tuple[Any, "Prediction"]]:
    """Each text's example with its prediction. Raises InputError for a bad line of standard input, after the
    predictions before it."""
    if texts:
        examples = [
            run.parse(text, f"text {number}") for number, text in enumerate(texts, 1)
        ]
        yield from zip(examples, run.predict(examples, options), strict=True)
        return
    from regard.cli.stream import CHUNK, NAME, chunks, standard_input
    from regard.data.truncation import counted_together

    number = 0
    with counted_together():
        # What is sampled must not depend on how fast lines arrive, so each is sampled by itself.
        for lines in chunks(
            standard_input(), most=1 if run.samples(options) else CHUNK
        ):
            try:
                examples = [
                    run.parse(line, f"{NAME}:{place}")
                    for place, line in enumerate(lines, number + 1)
                ]
                yield from zip(examples, run.predict(examples, options), strict=True)
            except InputError:
                yield from one_by_one(run, lines, options, number)
            number += len(lines)


def one_by_one(
    run: "Run[Any, Prediction]",
    lines: list[str],
    options: "PredictOptions",
    before: int,
) -> Iterator[tuple[Any, "Prediction"]]:
    """As `predictions`, with predictions for the lines before a bad one. Raises InputError with the bad line."""
    from regard.cli.stream import NAME

    for number, line in enumerate(lines, before + 1):
        example = run.parse(line, f"{NAME}:{number}")
        try:
            (prediction,) = run.predict([example], options)
        except InputError as error:
            raise InputError(
                f"{NAME}:{number}: {str(error).removeprefix('text 1: ')}"
            ) from error
        yield example, prediction


def report(
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
            for line in plain(number, prediction, 1 if options.mbr else options.n_best):
                say(line)
        for searched in ranked(prediction)[:1]:
            unfinished += not searched.finished
            missing.update(searched.missing)
    warn_of_unfinished(unfinished, number)
    warn_of_missing(missing, number)


def plain(number: int, prediction: "Prediction", n_best: int) -> list[str]:
    """The lines of a prediction; of several alternatives each with the number of its text and its score."""
    searched = ranked(prediction)
    if n_best == 1 or not searched:
        return prediction.lines()
    return [
        f"{number}\t{each.score:.4f}\t{line}"
        for each in searched
        for line in each.lines()
    ]


def ranked(prediction: "Prediction") -> "Sequence[SearchedPrediction]":
    """A searched prediction and its alternatives, best first; empty for another kind of prediction."""
    from regard.tasks.prediction import SearchedPrediction

    return (
        (prediction, *prediction.alternatives)
        if isinstance(prediction, SearchedPrediction)
        else ()
    )
