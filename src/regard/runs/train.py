"""Training: from a run file to a trained run in a folder, and whether a run there can be resumed."""

import json
import logging
import platform
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState

from regard.errors import InputError
from regard.images import Preparation
from regard.metrics import Metrics
from regard.models.pretrained import PretrainedConfig, PretrainedVisionConfig
from regard.models.published import find_published
from regard.models.published_images import complete_images
from regard.runs import run_file
from regard.runs.run_file import CONFIG, ENVIRONMENT, check_sizes
from regard.storage.run_folder import (
    ABOUT_TRAINING,
    METRICS,
    RESULT,
    WEIGHTS,
    RunDirectory,
)
from regard.storage.tensors import load_into, separate_tensors
from regard.storage.verified_files import CHANGED
from regard.tasks.base import SOURCE, TARGET, TOKENIZER, Setup
from regard.tasks.catalog import TASKS
from regard.tasks.fine_tuning import (
    FineTuning,
    PretrainedPart,
    PretrainedSource,
    load_parts,
)
from regard.tasks.options import EvaluationOptions
from regard.tasks.run import RunConfig, describe_search
from regard.tasks.seq2seq.run import TokenizerPair
from regard.tasks.summary import FILE as DATA
from regard.training.loop import fit
from regard.training.progress import Progress
from regard.training.settings import (
    Training,
    choose_device,
    choose_precision,
    choose_threads,
    count_parameters,
    keep_freed_memory,
    use_threads,
)
from regard.training.snapshot import keep_random_state
from regard.training.update import (
    ProcessGroup,
    explain_lost_processes,
    join_processes,
)
from regard.version import VERSION
from regard.work import divide_among, watch_training

FORMAT = 2
IDENTITY = "identity.json"
FIXED = ("format_version", "architecture", "tokenizer")
"""Without these equal a checkpoint means nothing."""
PROCESSES = "world_size"
"""May differ; the training says what that changes."""
FREE_SETTINGS = (
    "workers",
    "threads",
    "log_every",
    "tensorboard",
    "checkpoint_minutes",
    "process_timeout",
)
"""Settings of the training that may differ when a run is resumed.

They do not change the weights, or are compared in the environment.
"""
ABSENT = "(none)"
PACKAGES = ("torch", "accelerate", "tokenizers", "safetensors", "sacrebleu")
DECISIVE = ("torch", "device", "instructions", "threads")
"""What a resumed run must share with its beginning to end with the same weights."""
Values = Mapping[str, Any]
log = logging.getLogger("regard")


def identify(config: RunConfig, setup: Setup, processes: int) -> Values:
    """Return the identity of a run.

    Resuming requires the same, or an allowed change.
    """
    digests = [tokenizer.digest for tokenizer in setup.tokenizers.values()]
    return {
        "format_version": FORMAT,
        "architecture": config.model.name,
        "world_size": processes,
        "tokenizer": " ".join(digests),
        "data": setup.digest,
        "configuration": list_settings(config),
    }


def compare_with_saved(
    run: RunDirectory,
    identity: Values,
    environment: Values,
    allow_change: bool,
) -> list[str]:
    """Compare a run at its beginning with its identity and environment now.

    Returns:
        A line for each allowed difference.

    Raises:
        InputError: A difference is not allowed.
    """
    # the run file is read again, so that keys of later versions have their defaults
    settings = list_settings(run_file.read(run.file(CONFIG)))
    initial = {**environment, **read_environment(run)}
    saved, current = (
        {name: values[name] for name in DECISIVE} for values in (initial, environment)
    )
    return check_resume(
        run.read_object(IDENTITY) | {"configuration": settings, "environment": saved},
        {**identity, "environment": current},
        allow_change,
    )


def list_settings(config: RunConfig) -> Values:
    """Return the settings of a run file that decide which weights are learned."""
    settings = asdict(config)
    settings.pop("search", None)
    for name in FREE_SETTINGS:
        del settings["training"][name]
    return settings


def check_resume(saved: Values, current: Values, allow_change: bool) -> list[str]:
    """Compare the identity of a run at its start and now.

    Args:
        saved: The identity at the start; nested mappings go by their inner keys.
        current: The identity now. The keys in `FIXED` must be equal, and the number
            of processes may differ.
        allow_change: Whether other differences are allowed; they are logged.

    Returns:
        A line for each allowed difference.

    Raises:
        InputError: One line for each difference, with both values.
    """
    allowed = []
    refused = []
    for key, old, new in compare(saved, current):
        name = key.partition(".")[0]
        line = f"{key}: {_shorten(old)} in the run, {_shorten(new)} now"
        if name in FIXED:
            refused.append(f"{line}; start a new run with another --out")
        elif name == PROCESSES:
            continue
        elif allow_change:
            allowed.append(line)
        else:
            refused.append(f"{line}; undo it or give --allow-change")
    if refused:
        raise InputError("\n".join(f"cannot resume: {line}" for line in refused))
    for line in allowed:
        log.warning("resuming with a change: %s", line)
    return allowed


def check_files(run: RunDirectory, files: Values) -> None:
    """Compare values that the weights belong to, such as classes, with the saved ones.

    Raises:
        InputError: They differ; the message names the first new value.
    """
    for name, value in files.items():
        saved = run.read_json(name) if run.has(name) else value
        if saved != value:
            items = value if isinstance(value, list) else []
            new = [repr(item) for item in items if item not in saved]
            change = f"{new[0]} is new" if new else "some are missing or others"
            raise InputError(
                f"cannot resume: the data have other values of {name} than the run "
                f"({change}). Undo the change of the data, or start a new run"
            )


def explain_misfit(run: RunDirectory, changes: list[str]) -> str:
    """Return why a checkpoint does not fit after allowed changes, and what to do."""
    listed = "; ".join(changes)
    return (
        f"cannot resume: the checkpoint does not fit the changed run ({listed}). Undo "
        "the change, or start a new run from this one with another --out and "
        f"--set training.start={run.path}"
    )


def compare(saved: Any, current: Any, path: str = "") -> list[tuple[str, Any, Any]]:
    """Return (dotted key, saved value, current value) of each difference."""
    if not isinstance(saved, Mapping) or not isinstance(current, Mapping):
        # a tuple equals a list of the same items
        is_equal = json.dumps(saved, default=str) == json.dumps(current, default=str)
        return [] if is_equal else [(path, saved, current)]
    differences = []
    for key in dict.fromkeys([*saved, *current]):
        inner_path = f"{path}.{key}" if path else str(key)
        old = saved.get(key, ABSENT)
        new = current.get(key, ABSENT)
        differences += compare(old, new, inner_path)
    return differences


def _shorten(value: Any) -> str:
    text = value if value == ABSENT else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def current_environment(device: str, threads: int) -> dict[str, Any]:
    """Return versions, machine and device, which decide the weights."""
    return {
        "regard": VERSION,
        **{name: version(name) for name in PACKAGES},
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": platform.system(),
        "device": device,
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "threads": threads,
    }


def read_environment(run: RunDirectory) -> Values:
    """Return the environment that a run began with; empty if it is unknown."""
    return run.read_object(ENVIRONMENT) if run.has(ENVIRONMENT) else {}


def read_threads(run: RunDirectory) -> int | None:
    """Return the number of threads that a run began with, if it says."""
    threads = read_environment(run).get("threads")
    if threads is not None and (type(threads) is not int or threads < 1):
        raise InputError(f"{run.path / ENVIRONMENT}: threads is {threads!r}, {CHANGED}")
    return threads


Begin = Callable[[RunConfig, RunDirectory, PartialState, bool], tuple[RunConfig, Setup]]
"""From a run file, its folder, the process, and whether it resumes, to the full run
file and the setup."""


def train(
    config: RunConfig,
    out: Path,
    *,
    resume: bool = False,
    allow_change: bool = False,
    begin: Begin | None = None,
    notes: Sequence[str] = (),
) -> Metrics:
    """Train a run file in a folder, or continue the run in it.

    Under torchrun or `accelerate launch` every process calls it; the first one writes.

    Args:
        config: The run file.
        out: The folder of the run.
        resume: Continue the run that is in the folder.
        allow_change: Resume although settings, data or the environment changed.
        begin: Makes the setup once the folder is locked and the seed is set; by default
            the task's.
        notes: Lines to log once the data has proved valid.

    Returns:
        The contents of `result.json`: metrics on the validation set, decoded
        greedily, as `valid/...`; on the test set, if there is one, with the run's
        search, as `test/...`; seconds, steps, parameters, tokens_per_second.

    Raises:
        InputError: The data, the folder, the device or a change is invalid; a run that
            was there is as it was.
        RunError: Training failed.
    """
    keep_freed_memory()
    device = choose_device(config.training.device)
    config = resolve_precision(config, device)
    limit = config.training.process_timeout
    process = join_processes(cpu=device == "cpu", timeout=timedelta(seconds=limit))
    with (
        explain_lost_processes(limit),
        open_folder(out, resume, process) as run,
        keep_random_state(torch.device(device)),
    ):
        torch.manual_seed(config.training.seed)
        config, setup = (begin or begin_task)(config, run, process, resume)
        for note in notes:
            log.info(note)
        training = config.training
        if training.epochs is not None:
            batches = len(setup.objective.batches(0)) // process.num_processes
            training = training.with_epochs_as_steps(batches)
            config = replace(config, training=training)
        identity = identify(config, setup, process.num_processes)
        threads = choose_threads(
            training,
            count_parameters(setup.model),
            read_threads(run) if resume else None,
        )
        environment = current_environment(device, threads)
        changes: list[str] = []
        # without both, the run was killed before it was described
        if resume and (run.has(IDENTITY) or run.checkpoints.steps()):
            changes = compare_with_saved(run, identity, environment, allow_change)
            if run.checkpoints.steps():
                check_files(run, setup.files)
        process.wait_for_everyone()
        is_ready = False

        def write_description() -> None:
            nonlocal is_ready
            is_ready = True
            if process.is_main_process:
                describe(run, config, identity, setup)
                if not run.has(ENVIRONMENT):  # a resumed run keeps what it began in
                    run.write_json(ENVIRONMENT, environment)
                log_setup(setup, training)

        with use_threads(threads), watch_training(setup.model):
            try:
                figures = fit(
                    setup.model,
                    setup.objective,
                    training,
                    run,
                    resume=resume,
                    on_ready=write_description,
                )
            except InputError as error:
                if is_ready or not changes:
                    raise
                raise InputError(explain_misfit(run, changes)) from error
        result = {}
        for name, value in figures.items():
            result[name if name in ABOUT_TRAINING else f"valid/{name}"] = value
        if setup.tests:
            with use_threads(threads), divide_among(ProcessGroup()):
                figures = test(
                    run, config, setup, device, visible=process.is_main_process
                )
            result |= {f"test/{name}": value for name, value in figures.items()}
        elif setup.simplest:
            log.info("baseline on the validation examples: %s", setup.simplest)
        if process.is_main_process:
            run.write_json(RESULT, result)
    return result


def begin_task(
    config: RunConfig, run: RunDirectory, process: PartialState, resume: bool
) -> tuple[RunConfig, Setup]:
    """Return the full run file and the setup.

    The model has the weights of a pretrained part, or of the run to start from.

    Raises:
        InputError: The run file, the data or the other run is invalid.
    """
    writes = process.is_main_process
    config = complete(config, run, writes=writes, resume=resume)
    process.wait_for_everyone()
    part = config.source_part if isinstance(config, PretrainedSource) else None
    if isinstance(config, PretrainedSource) and part is not None and not part.has_sizes:
        config = config.with_sizes(read_part(part))
    if config.training.start is None:
        setup = TASKS[config.task].setup(config, run, process.num_processes)
        if run.checkpoints.steps():
            return config, setup
        if isinstance(config.model, PretrainedConfig):
            network: Any = setup.model
            network.load_published(config.model.folder())
        if part is not None and is_published(part):
            for name in setup.pretrained:
                network = setup.model.get_submodule(name)
                network.load_published(find_published(part.folder)[0])
        elif part is not None:
            load_parts(
                setup.model,
                setup.pretrained,
                RunDirectory.open(Path(part.folder)).load_tensors(WEIGHTS),
            )
        return config, setup
    start = RunDirectory.open(Path(config.training.start))
    start_config = run_file.read(start.file(CONFIG))
    if isinstance(config, FineTuning):
        check_sizes(start, start_config)
        config = config.complete_from(start_config)
    if writes and not resume:
        for name in start.names("tokenizer.json"):
            with run.writing(name) as path:
                shutil.copyfile(start.file(name), path)
    process.wait_for_everyone()
    setup = TASKS[config.task].setup(config, run, process.num_processes)
    weights = start.load_tensors(WEIGHTS)
    if setup.pretrained and start_config.task != config.task:
        load_parts(setup.model, setup.pretrained, weights, setup.fresh)
    else:
        load_into(setup.model, weights, fresh=setup.fresh)
    return config, setup


def is_published(part: PretrainedPart) -> bool:
    """Return whether a part is a published model instead of a run."""
    return part.read_published is not None and not (Path(part.folder) / CONFIG).exists()


def read_part(part: PretrainedPart) -> Any:
    """Return the run file of the run that has a part, or what a published model says.

    Raises:
        InputError: The folder is missing, incomplete, or of another kind.
        RunError: The hub does not answer.
    """
    if part.read_published is not None and is_published(part):
        return part.read_published(part.folder)
    source = RunDirectory.open(Path(part.folder))
    config = run_file.read(source.file(CONFIG))
    part.check(config)
    check_sizes(source, config)
    return config


def test(
    run: RunDirectory, config: RunConfig, setup: Setup, device: str, *, visible: bool
) -> Metrics:
    """Return the metrics of the trained model on the test set."""
    trained = TASKS[config.task].run.open(run, config)
    weights = separate_tensors(setup.model.state_dict())
    trained.load_weights(weights, allow_missing=False)
    trained.model.to(device).eval()
    trained.use_engine(run)
    with Progress(steps=0, interval=1, visible=visible).show_elapsed("testing"):
        metrics = trained.evaluate(setup.tests)
    description = describe_search(trained, EvaluationOptions())
    if description is not None:
        log.info("test metrics, %s", description)
    return metrics


def resolve_precision(config: RunConfig, device: str) -> RunConfig:
    """Return the run file with the precision that the device chooses."""
    precision = choose_precision(config.training.precision, device)
    return replace(config, training=replace(config.training, precision=precision))


@contextmanager
def open_folder(
    path: Path, resume: bool, process: PartialState
) -> Iterator[RunDirectory]:
    """Make and lock the folder of a run, by the first process before the others.

    If a new run fails before it has trained, or for bad input before its first
    checkpoint, nothing of it stays: the next start finds what this one found.
    """
    with process.main_process_first():
        if process.is_main_process:
            run = RunDirectory.create(path, resume=resume)
        else:
            run = RunDirectory.open(path)
    with run:
        try:
            yield run
        except BaseException as error:
            has_metrics = run.has(METRICS) and not isinstance(error, InputError)
            has_trained = bool(run.checkpoints.steps()) or has_metrics
            if process.is_main_process and not resume and not has_trained:
                run.withdraw()
            raise


def log_setup(setup: Setup, training: Training) -> None:
    """Log what is trained on which data for how long, and what is not meant probably."""
    log.info(setup.summary)
    if setup.data is not None:
        log.info("\n  ".join(("the data", *setup.data.lines())))
        for warning in setup.data.warnings:
            log.warning("warning: %s", warning)
    log.info("the training\n  %s", training.describe())


def describe(
    run: RunDirectory, config: RunConfig, identity: Mapping[str, Any], setup: Setup
) -> None:
    """Write the files of a run that precede training."""
    run.write_text(CONFIG, run_file.dump(config))
    run.write_json(IDENTITY, identity)
    for name, tokenizer in setup.tokenizers.items():
        with run.writing(name) as path:
            tokenizer.save(path)
    for name, value in setup.files.items():
        run.write_json(name, value)
    if setup.data is not None:
        run.write_json(DATA, setup.data.to_json())


FILLED = ("tokenizer", "tokenizers", "images")
"""Sections of a run file that come from the published model."""


def complete(config: Any, run: RunDirectory, *, writes: bool, resume: bool) -> Any:
    """Fill in what the published model decides, and copy its tokenizer into the run.

    Args:
        config: The run file.
        run: The folder of the run.
        writes: Whether this process writes into the folder.
        resume: Whether the run began before: its own run file then has everything.

    Returns:
        The complete run file; for another model unchanged.

    Raises:
        InputError: The published model is missing, incomplete or unsafe.
        RunError: The hub does not answer.
    """
    model = config.model
    if not isinstance(model, PretrainedConfig) or model.is_complete:
        return config
    names = {field.name for field in fields(config)}
    has_images = "images" in names and config.images != Preparation()
    if resume and run.has(CONFIG):
        saved = run_file.read(run.file(CONFIG))
        if not isinstance(saved.model, PretrainedConfig):
            return config
        sections = {name: getattr(saved, name) for name in names & {*FILLED}}
        if has_images:
            del sections["images"]
        return replace(config, model=model.complete_like(saved.model), **sections)
    if isinstance(model, PretrainedVisionConfig):
        full, images = complete_images(model)
        images = config.images if has_images else images
        return replace(config, model=full, images=images)
    full, tokenizer = model.complete()
    files = {TOKENIZER}
    section = {"tokenizer": tokenizer.settings}
    if "tokenizers" in names:
        pair = TokenizerPair(tokenizer.settings, shared=True)
        files = {SOURCE, TARGET}
        section = {"tokenizers": pair}
    for name in files if writes else ():
        with run.writing(name) as path:
            tokenizer.save(path)
    return replace(config, model=full, **section)
