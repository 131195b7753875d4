"""Commands that predict and embed, also files in parts: `predict`, `chat`, `embed`."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from regard.cli.main import (
    CHUNK,
    STDIN,
    BatchFlags,
    LoadFlags,
    Piped,
    PredictFlags,
    advise_columns,
    format_table,
    iterate_chunks,
    iterate_texts,
    one_line,
    open_standard_input,
    pause_collection,
    read_predict_options,
    say,
    say_json,
    warn,
)
from regard.errors import InputError, quote
from regard.tasks.options import flat

if TYPE_CHECKING:
    from regard.runs.batch_prediction import Predictor
    from regard.tasks.options import GeneratedText, Prediction, PredictOptions
    from regard.tasks.run import Run

    Embed = Callable[[Sequence[str]], list[dict[str, Any]]]
    """Computes a record for each of several texts."""


DEFAULTS, DEFAULT_LOAD, NO_FILES = PredictFlags(), LoadFlags(), BatchFlags()


def predict(
    run: Path,
    /,
    *texts: str,
    question: str | None = None,
    context: str | None = None,
    flags: PredictFlags = DEFAULTS,
    weights: LoadFlags = DEFAULT_LOAD,
    batch: BatchFlags = NO_FILES,
    json_: bool = False,
    piped: Piped = False,
) -> None:
    """Predict for texts, or for the lines of standard input.

    Each line of standard input is processed as it arrives. The rows of files, with
    --input and --output, are computed in parts by any number of processes.

    Args:
        run: Folder of a trained run or of a published model, or its name on the hub.
        texts: Texts, or of two texts 'FIRST' 'SECOND'; an image or a sound by its path.
            None: the lines of standard input.
        question: The question, for a run that answers from a --context.
        context: The text that answers the --question.
        json_: Print JSON.
        piped: The lines of standard input.
    """
    options = read_predict_options(flags)
    if options.attention and not json_ and not batch.input:
        raise InputError(
            "--attention needs --json; `regard show` draws the attention of one text"
        )
    if (question is None) is not (context is None):
        raise InputError("--question and --context go together; give both")
    if question is not None and context is not None:
        if texts or piped:
            raise InputError("texts and --question are both given; choose one")
        texts = (json.dumps({"question": question, "context": context}),)
    in_parts = batch.is_used(texts, piped)
    chosen = flags, weights, batch, json_, "torch" in sys.modules
    if texts and chosen == (DEFAULTS, DEFAULT_LOAD, NO_FILES, False, False):
        # without PyTorch, which nothing has loaded yet
        from regard.decoding.converted import predict as predict_converted

        predictions = predict_converted(run, texts)
        if predictions is not None:
            for prediction in predictions:
                say(flat(prediction))
            return
    loaded = load_run(run, options, weights)
    if in_parts:
        from regard.runs.batch_prediction import build_predictor
        from regard.tasks.base import input_columns

        worker, columns = build_predictor(loaded, options), input_columns(loaded)
        settings = vars(flags) | vars(weights)
        return run_batch("predict", run, batch, settings, worker, columns)
    if not json_ and "attention" in loaded.supports["predict"]:
        options = replace(options, attention=False)  # lines of text show none
    predictions = iterate_predictions(loaded, texts, options)
    print_predictions(loaded, predictions, options, as_json=json_)


def load_run(
    run: Path, options: "PredictOptions", weights: LoadFlags
) -> "Run[Any, Any]":
    """Load a run that predicts.

    Raises:
        InputError: The run cannot be loaded, or lacks an option.
    """
    with pause_collection():
        from regard.runs.run_file import load
        from regard.training.settings import choose_own_accelerator

        choose_own_accelerator()
        loaded = load(run, allow_missing=weights.allow_missing, int8=weights.int8)
        loaded.check_supported("predict", options)
    return loaded


def run_batch(
    verb: str,
    run: Path,
    flags: BatchFlags,
    settings: Mapping[str, Any],
    worker: "Predictor",
    columns: Mapping[str, str | int],
) -> None:
    """Compute files in parts and print the totals.

    Raises:
        InputError and RunError: As `run_job`.
    """
    from regard.data.files import list_files
    from regard.data.inputs import RowReader
    from regard.data.rows import MissingColumns
    from regard.data.tables import choose_columns
    from regard.data.tokens import count_together
    from regard.runs.batch_prediction import Request, begin, run_job

    inputs = [file for path in flags.input for file in list_files(path)]
    chosen_columns = columns
    if flags.columns is not None:
        chosen_columns = choose_columns(columns, flags.columns)
    reader = RowReader(chosen_columns)
    unset = (None, False, (), "")
    chosen = {name: value for name, value in settings.items() if value not in unset}
    request = Request(
        verb, run, chosen, inputs, reader, flags.part_rows, flags.skip_bad
    )
    assert flags.output is not None
    try:
        job = begin(flags.output, request)
    except MissingColumns as error:
        advise_columns(error, columns)
        raise
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
    from regard.data.tokens import count_together

    def predict_chunk(chunk: Sequence[str], first: int) -> Iterator[Any]:
        examples = []
        for number, text in enumerate(chunk, first):
            examples.append(run.parse(text, f"{STDIN}:{number}"))
        yield from zip(examples, run.predict(examples, options), strict=True)

    if texts:
        examples = run.parse_arguments(texts)
        yield from zip(examples, run.predict(examples, options), strict=True)
        return
    first = 1
    # what is sampled must not depend on how fast lines arrive, so each is alone
    limit = 1 if run.samples(options) else CHUNK
    with count_together():
        for lines in iterate_chunks(open_standard_input(), limit):
            try:
                yield from predict_chunk(lines, first)
            except InputError:
                # the predictions before the bad line, then its error with its place
                for number, line in enumerate(lines, first):
                    try:
                        yield from predict_chunk([line], number)
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
    """Print predictions as they arrive, then how many are unfinished.

    Of several alternatives, each has the number of its text and its score in front.
    """
    number = unfinished = 0
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
    if unfinished:
        print(
            f"regard: {unfinished} of {number} predictions reached the length limit "
            "unfinished",
            file=sys.stderr,
        )


def list_ranked(prediction: "Prediction") -> "Sequence[GeneratedText]":
    """Return a searched prediction and its alternatives, best first; else none."""
    from regard.tasks.options import GeneratedText

    if not isinstance(prediction, GeneratedText):
        return ()
    return (prediction, *prediction.alternatives)


def chat(run: Path, /, *, flags: PredictFlags = DEFAULTS) -> None:
    """Reply to each line that you type, in its context.

    An empty line begins a new conversation.

    Args:
        run: Folder of a trained run.
    """
    options = read_predict_options(flags)
    if options.n_best > 1:
        raise InputError("--n-best gives several replies, a chat has one; leave it out")
    with pause_collection():
        from regard.runs.run_file import load
        from regard.tasks.run import require_method

        loaded = load(run)
        begin = require_method(loaded, "conversation", run)
        conversation = begin(options)
    lines = iterate_chunks(open_standard_input(), 1)
    for number, (line,) in enumerate(lines, 1):
        if not line.strip():
            conversation = begin(options)
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
    """Print a vector for each text, image or sound.

    One line of JSON each: {"text": ..., "vector": [...]}, of a file with "image" or
    "audio"; with --words {"text": ..., "words": [{"word": ..., "vector": [...]}]}.

    Args:
        run: Folder of a trained run or of a transformers model, or its name on the hub,
            OWNER/NAME.
        texts: Texts, or paths of images or sounds. None: the lines of standard input.
        pool: The mean of a text's states, or the first. Default: as a
            sentence-transformers folder, or mean.
        prompt: For a sentence-transformers folder: the name of the prompt in front of
            each text.
        words: Of ELMo, a vector for each word.
        allow_missing: Initialize parameters that the weights lack.
        piped: The lines of standard input.
    """
    settings = {
        "pool": pool,
        "prompt": prompt,
        "words": words,
        "allow_missing": allow_missing,
    }
    in_parts = batch.is_used(texts, piped)
    loaded, compute = load_embedding(run, settings)
    if in_parts:
        from regard.runs.batch_prediction import build_embedder

        worker = build_embedder(loaded, compute)
        return run_batch("embed", run, batch, settings, worker, {"text": "text"})
    for chunk in iterate_texts(texts):
        for text, vectors in zip(chunk, compute(chunk), strict=True):
            warn(quote(text), loaded.warnings(text))
            say_json(loaded.record(text) | vectors)


def load_embedding(run: Path, settings: Mapping[str, Any]) -> "tuple[Any, Embed]":
    """Load a run; return it and what computes its `vector`s, or `words` with theirs.

    Raises:
        InputError: It cannot be loaded, or has no such embeddings.
    """
    with pause_collection():
        from regard.hub.open_run import open_states
        from regard.tasks.run import require_method
        from regard.training.settings import choose_own_accelerator

        choose_own_accelerator()
        loaded: Any = open_states(run, allow_missing=settings["allow_missing"])
    if settings["words"]:
        embed_words = require_method(loaded, "embed_words", run)
        return loaded, lambda texts: [
            {"words": text.to_json()} for text in embed_words(texts)
        ]
    names = ("pool", "prompt")
    chosen = {name: settings[name] for name in names if settings[name] is not None}
    require_method(loaded, "prompts" if "prompt" in chosen else "embed", run)
    return loaded, lambda texts: [
        {"vector": vector} for vector in loaded.embed(texts, **chosen).tolist()
    ]
