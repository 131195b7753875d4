"""Commands that predict and embed, also files in parts: `predict`, `chat`, `embed`."""

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from regard.cli.options import (
    BatchFlags,
    LoadFlags,
    Piped,
    PredictFlags,
    check_source,
    read_predict_options,
)
from regard.cli.streams import (
    CHUNK,
    STDIN,
    format_table,
    iterate_chunks,
    iterate_texts,
    one_line,
    open_standard_input,
    pause_collection,
    say,
    say_json,
    warn,
    warn_of_missing,
)
from regard.errors import InputError, quote
from regard.extras import how_to_install

if TYPE_CHECKING:
    from regard.runs.batch_prediction import Worker
    from regard.tasks.options import PredictOptions
    from regard.tasks.prediction import Prediction, SearchedPrediction
    from regard.tasks.run import Run

    Embed = Callable[[Sequence[str]], list[dict[str, Any]]]
    """Computes a record for each of several texts."""
    Loaded = tuple[Worker, Mapping[str, str | int]]
    """A worker, and the columns of its rows in a table by their keys."""


@Parameter(name="*")
@dataclass(frozen=True)
class EnsembleFlags(LoadFlags):
    """How a run is loaded, and others that predict with it.

    Attributes:
        with_: A run with the same tokenizers, for an ensemble. Repeatable.
    """

    with_: Annotated[tuple[Path, ...], Parameter(name="--with")] = ()


DEFAULTS, DEFAULT_ENSEMBLE, NO_FILES = PredictFlags(), EnsembleFlags(), BatchFlags()


def predict(
    run: Path,
    /,
    *texts: str,
    flags: PredictFlags = DEFAULTS,
    weights: EnsembleFlags = DEFAULT_ENSEMBLE,
    batch: BatchFlags = NO_FILES,
    json_: bool = False,
    piped: Piped = False,
) -> None:
    """Predict for texts, or for the lines of standard input.

    Standard input is read line by line as it arrives. The rows of files, with
    --input and --output, are computed in parts by any number of processes.

    Args:
        run: Folder of a trained run.
        texts: Texts. None: the lines of standard input.
        json_: Print JSON.
        piped: The lines of standard input.
    """
    options = read_predict_options(flags)
    if options.attention and not (json_ or batch.used):
        raise InputError(
            "--attention needs --json; `regard show` draws the attention of one text"
        )
    check_source(texts, piped)
    batch.check(texts, piped)
    if batch.used:
        settings = {**vars(flags), **vars(weights)}
        load = partial(load_predictor, run, options, weights)
        return run_batch("predict", run, batch, settings, load)
    loaded = load_run(run, options, weights)
    predictions = iterate_predictions(loaded, texts, options)
    print_predictions(loaded, predictions, options, as_json=json_)


def load_run(
    run: Path, options: "PredictOptions", weights: EnsembleFlags
) -> "Run[Any, Any]":
    """Load a run that predicts, or an ensemble.

    Raises:
        InputError: A run cannot be loaded, or lacks an option.
    """
    with pause_collection():
        from regard.runs.load import load
        from regard.tasks.capabilities import Ensembles, require_capability
        from regard.training.devices import choose_own_accelerator

        choose_own_accelerator()
        loading: dict[str, Any] = {
            "allow_missing": weights.allow_missing,
            "int8": weights.int8,
        }
        loaded = load(run, **loading)
        loaded.check_supported("predict", options)
        if weights.with_:
            partners = [load(partner, **loading) for partner in weights.with_]
            loaded = require_capability(loaded, Ensembles, run).ensemble(partners)
    return loaded


def load_predictor(
    run: Path, options: "PredictOptions", weights: EnsembleFlags
) -> "Loaded":
    """Load a worker that predicts."""
    loaded = load_run(run, options, weights)
    from regard.runs.batch_prediction import build_predictor
    from regard.tasks.row_examples import input_columns

    return build_predictor(loaded, options), input_columns(loaded)


def load_worker(load: "Callable[[], Loaded]") -> "Worker":
    """Load a worker without its columns, in a task of Ray."""
    return load()[0]


def run_batch(
    verb: str,
    run: Path,
    flags: BatchFlags,
    settings: Mapping[str, Any],
    load: "Callable[[], Loaded]",
) -> None:
    """Compute files in parts and print the totals.

    Raises:
        InputError and RunError: As `run_job`.
    """
    from regard.data.files import list_files
    from regard.data.inputs import RowReader
    from regard.data.rows import MissingColumns
    from regard.data.tokens import count_together
    from regard.runs.batch_prediction import Request, begin, run_job, run_on_ray
    from regard.tasks.row_examples import choose_columns

    if flags.on == "ray" and find_spec("ray") is None:
        advice = how_to_install("ray")
        raise InputError(f"--on ray needs ray, which is not installed: {advice}")
    worker, columns = load()
    inputs = [file for path in flags.input for file in list_files(path)]
    reader = RowReader(choose_columns(columns, flags.columns))
    chosen = {}
    for name, value in settings.items():
        if value not in (None, False, (), ""):
            chosen[name] = value
    request = Request(
        verb, run, chosen, inputs, reader, flags.part_rows, flags.skip_bad
    )
    assert flags.output is not None
    try:
        job = begin(flags.output, request)
    except MissingColumns as error:
        names = ",".join(map(str.upper, columns))
        raise error.with_advice(f"name yours with --columns {names}") from error
    if flags.on == "ray":
        totals = run_on_ray(job, partial(load_worker, load))
    else:
        with count_together():
            totals = run_job(job, worker)
    if os.environ.get("RANK", "0") == "0":  # of several processes one speaks
        say(format_table(totals))


def iterate_predictions(
    run: "Run[Any, Prediction]", texts: Sequence[str], options: "PredictOptions"
) -> Iterator[tuple[Any, "Prediction"]]:
    """Yield the example of each text, or line of standard input, with its prediction.

    Raises:
        InputError: A text is bad; the predictions of the lines before it are yielded.
    """
    if texts:
        examples = []
        for number, text in enumerate(texts, 1):
            examples.append(run.parse(text, f"text {number}"))
        yield from zip(examples, run.predict(examples, options), strict=True)
        return
    from regard.data.tokens import count_together

    def predict_lines(lines: Sequence[str], first: int) -> Iterator[Any]:
        examples = []
        for number, line in enumerate(lines, first):
            examples.append(run.parse(line, f"{STDIN}:{number}"))
        yield from zip(examples, run.predict(examples, options), strict=True)

    first = 1
    # what is sampled must not depend on how fast lines arrive, so each is alone
    limit = 1 if run.samples(options) else CHUNK
    with count_together():
        for lines in iterate_chunks(open_standard_input(), limit):
            try:
                yield from predict_lines(lines, first)
            except InputError:
                # the predictions before the bad line, then its error with its place
                for number, line in enumerate(lines, first):
                    try:
                        yield from predict_lines([line], number)
                    except InputError as error:
                        place = f"{STDIN}:{number}: "
                        reason = str(error).removeprefix(place)
                        reason = reason.removeprefix("text 1: ")
                        raise InputError(place + reason) from error
            first += len(lines)


def print_predictions(
    run: "Run[Any, Prediction]",
    predictions: Iterable[tuple[Any, "Prediction"]],
    options: "PredictOptions",
    *,
    as_json: bool,
) -> None:
    """Print predictions as they arrive, then how many are unfinished or lack phrases.

    Of several alternatives, each has the number of its text and its score in front.
    """
    number = unfinished = 0
    missing = Counter[str]()
    for number, (example, prediction) in enumerate(predictions, 1):
        warnings = [*run.warnings(example), *run.prediction_warnings(prediction)]
        warn(f"text {number}", warnings)
        ranked = list_ranked(prediction)
        if as_json:
            say_json(run.record(example) | prediction.to_json())
        elif options.n_best == 1 or not ranked:
            for line in prediction.lines():
                say(line)
        else:
            for alternative in ranked:
                for line in alternative.lines():
                    say(f"{number}\t{alternative.score:.4f}\t{line}")
        if ranked:
            unfinished += not ranked[0].finished
            missing.update(ranked[0].missing)
    if unfinished:
        print(
            f"regard: {unfinished} of {number} predictions reached the length limit "
            "unfinished",
            file=sys.stderr,
        )
    warn_of_missing(missing, number)


def list_ranked(prediction: "Prediction") -> "Sequence[SearchedPrediction]":
    """Return a searched prediction and its alternatives, best first; else none."""
    from regard.tasks.prediction import SearchedPrediction

    if not isinstance(prediction, SearchedPrediction):
        return ()
    return (prediction, *prediction.alternatives)


def chat(run: Path, /, *, flags: PredictFlags = DEFAULTS) -> None:
    """Reply to each line that you type, in its context.

    A blank line begins a new conversation.

    Args:
        run: Folder of a trained run.
    """
    options = read_predict_options(flags)
    if options.n_best > 1:
        raise InputError("--n-best gives several replies, a chat has one; leave it out")
    with pause_collection():
        from regard.runs.load import load
        from regard.tasks.capabilities import Converses, require_capability

        loaded = load(run)
        converses = require_capability(loaded, Converses, run)
        conversation = converses.conversation(options)
    lines = iterate_chunks(open_standard_input(), 1)
    for number, (line,) in enumerate(lines, 1):
        if not line.strip():
            conversation = converses.conversation(options)
            continue
        place = f"{STDIN}:{number}"
        warn(place, loaded.warnings(line))
        say(one_line(conversation.reply(line, place).text))


def embed(
    run: Path,
    /,
    *texts: str,
    pool: Literal["mean", "first"] | None = None,
    prompt: str | None = None,
    words: bool = False,
    allow_missing: bool = False,
    batch: BatchFlags = NO_FILES,
    piped: Piped = False,
) -> None:
    """Print a vector for each text, or for its words.

    One line of JSON each: {"text": ..., "vector": [...]}; with --words
    {"text": ..., "words": [{"word": ..., "vector": [...]}]}.

    Args:
        run: Folder of a trained run or of a transformers model, or its name on the hub,
            OWNER/NAME.
        texts: Texts. None: the lines of standard input.
        pool: The mean of a text's states, or the first. Default: as a
            sentence-transformers folder, or mean.
        prompt: Of a sentence-transformers folder, the name of the prompt in front of
            each text.
        words: Of ELMo, a vector for each word.
        allow_missing: Initialize parameters that the weights lack.
        piped: The lines of standard input.
    """
    check_source(texts, piped)
    batch.check(texts, piped)
    chosen = {"pool": pool, "prompt": prompt}
    chosen = {name: value for name, value in chosen.items() if value is not None}
    loading = {"words": words, "allow_missing": allow_missing}
    if batch.used:
        load = partial(load_embedder, run, chosen, **loading)
        return run_batch("embed", run, batch, chosen | loading, load)
    loaded, compute = load_embedding(run, chosen, **loading)
    for chunk in iterate_texts(texts):
        for text, vectors in zip(chunk, compute(chunk), strict=True):
            warn(quote(text), loaded.warnings(text))
            say_json({"text": text} | vectors)


def load_embedding(
    run: Path, chosen: Mapping[str, str], *, words: bool, allow_missing: bool
) -> "tuple[Any, Embed]":
    """Load a run; return it and what computes its embeddings.

    Raises:
        InputError: It cannot be loaded, or has no such embeddings.
    """
    with pause_collection():
        from regard.hub.open_run import open_run
        from regard.training.devices import choose_own_accelerator

        choose_own_accelerator()
        loaded = open_run(run, allow_missing=allow_missing)
    return loaded, choose_embedding(loaded, run, chosen, words=words)


def load_embedder(
    run: Path, chosen: Mapping[str, str], *, words: bool, allow_missing: bool
) -> "Loaded":
    """Load a worker that embeds texts."""
    _, compute = load_embedding(run, chosen, words=words, allow_missing=allow_missing)
    from regard.runs.batch_prediction import build_embedder

    return build_embedder(compute), {"text": "text"}


def choose_embedding(
    run: Any, path: Path, chosen: Mapping[str, str], *, words: bool
) -> "Embed":
    """Return what computes the `vector` of texts, or the `words` with theirs.

    Raises:
        InputError: The run has no such embeddings.
    """
    from regard.tasks.capabilities import (
        EmbedsPrompted,
        EmbedsTexts,
        EmbedsWords,
        require_capability,
    )

    if words:
        embeds_words = require_capability(run, EmbedsWords, path)
        return lambda texts: [
            {"words": text.to_json()} for text in embeds_words.embed_words(texts)
        ]
    kind: Any = EmbedsPrompted if "prompt" in chosen else EmbedsTexts
    embeds = require_capability(run, kind, path)
    return lambda texts: [
        {"vector": vector} for vector in embeds.embed(texts, **chosen).tolist()
    ]
