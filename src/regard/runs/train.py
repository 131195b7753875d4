"""Training: from a run file to a trained run in a folder."""

import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState

from regard.errors import InputError
from regard.models.fused import fuse
from regard.nonfinite import debugged
from regard.runs import environment, run_file
from regard.runs.compatibility import check_resume
from regard.runs.load import CONFIG, check_sizes, load
from regard.storage.run_folder import (
    ABOUT_TRAINING,
    METRICS,
    RESULT,
    WEIGHTS,
    RunDirectory,
)
from regard.storage.tensors import load_into
from regard.tasks.catalog import TASKS
from regard.tasks.evaluation import searched
from regard.tasks.fine_tuning import FineTuning
from regard.tasks.options import EvaluationOptions
from regard.tasks.pretrained_part import PretrainedSource, load_parts
from regard.tasks.setup import Setup
from regard.tasks.summary import FILE as DATA
from regard.tasks.task import RunConfig
from regard.training.allocator import keep_freed_memory
from regard.training.devices import choose_device, choose_precision
from regard.training.loop import fit
from regard.training.processes import Everyone, answering
from regard.training.progress import Progress
from regard.training.settings import Training
from regard.training.state import count_parameters, keeping_random_state
from regard.training.threads import choose_threads, threads
from regard.training.trackers import check_tracker
from regard.work import divided_by

FORMAT = 2
IDENTITY = "identity.json"
HARMLESS = (
    "workers",
    "threads",
    "log_every",
    "tensorboard",
    "tracker",
    "checkpoint_minutes",
    "process_timeout",
)
"""Settings of the training that may differ when a run is resumed: they do not change the weights, or, as the number of
threads, are compared in the environment."""

Begin = Callable[[RunConfig, RunDirectory, PartialState, bool], tuple[RunConfig, Setup]]
"""From a run file, its folder, the process and whether it resumes to the full run file and the setup."""

log = logging.getLogger("regard")


def train(
    config: RunConfig,
    out: Path,
    *,
    resume: bool = False,
    allow_change: bool = False,
    notes: Sequence[str] = (),
) -> dict[str, float]:
    """Train the run file `config` in the folder `out`; with `resume`, continue the run in that folder. `notes` are
    lines on its settings that are printed once everything is checked.

    Under torchrun or `accelerate launch` every process calls it; the first one writes, all of them read `out`.

    Returns: the figures of `result.json`: the metrics on the validation set, decoded greedily, as `valid/...`; on the
        test set, if there is one, with the run's search, as `test/...`; seconds, steps, parameters, tokens_per_second.

    Raises:
        InputError: the data, the folder, the device or a change since the run began is invalid.
        RunError: training failed.
    """

    def noted(*of: Any) -> tuple[RunConfig, Setup]:
        full, setup = begin(*of)
        return full, replace(setup, notes=tuple(notes))

    return train_setup(config, noted, out, resume=resume, allow_change=allow_change)


def train_setup(
    config: RunConfig,
    begin: Begin,
    out: Path,
    *,
    resume: bool = False,
    allow_change: bool = False,
) -> dict[str, float]:
    """As `train`, with the caller's own setup: `begin` makes it once the folder is locked and the seed is set."""
    keep_freed_memory()
    check_tracker(config.training.tracker)
    device = choose_device(config.training.device)
    config = settled(config, device)
    limit = config.training.process_timeout
    process = PartialState(cpu=device == "cpu", timeout=timedelta(seconds=limit))
    with (
        answering(limit),
        folder(out, resume, process) as run,
        keeping_random_state(torch.device(device)),
    ):
        torch.manual_seed(config.training.seed)
        config, setup = begin(config, run, process, resume)
        config = counted(config, setup, process.num_processes)
        fuse(setup.model)  # for validation, which decodes
        identity = identify(config, setup, process.num_processes)
        began = environment.threads(run) if resume else None
        count = choose_threads(config.training, count_parameters(setup.model), began)
        machine = environment.now(config, device, count)
        if resume and (
            run.has(IDENTITY) or run.checkpoint_steps()
        ):  # else killed before it was described
            saved = saved_identity(run) | {
                "environment": environment.decisive(environment.began(run, machine))
            }
            check_resume(
                saved,
                identity | {"environment": environment.decisive(machine)},
                allow_change,
            )
        process.wait_for_everyone()
        if process.is_main_process:
            describe(run, config, identity, setup)
            environment.write(run, machine)
            log_setup(setup, config.training)
        with threads(count):
            with debugged(setup.model):
                fitted = fit(
                    setup.model, setup.objective, config.training, run, resume=resume
                )
            result = {
                name if name in ABOUT_TRAINING else f"valid/{name}": figure
                for name, figure in fitted.items()
            }
            with divided_by(Everyone()):
                result |= tested(out, device, setup, shown=process.is_main_process)
            if setup.simplest:
                log.info("beside the validation figures: %s", setup.simplest)
            if process.is_main_process:
                run.write_json(RESULT, result)
    return result


def begin(
    config: RunConfig, run: RunDirectory, process: PartialState, resume: bool
) -> tuple[RunConfig, Setup]:
    """The full run file and the setup, with the weights of a pretrained part and of the starting run. Raises
    InputError."""
    part = config.pretrained_part if isinstance(config, PretrainedSource) else None
    if isinstance(config, PretrainedSource) and part is not None and not part.has_sizes:
        source = RunDirectory.open(Path(part.folder))
        other = run_file.read(source.file(CONFIG))
        part.check(other)
        check_sizes(source, other)
        config = config.with_sizes(other)
    if config.training.start is None:
        setup = TASKS[config.task].setup(config, run, process.num_processes)
        if part is not None and not run.checkpoint_steps():
            load_parts(
                setup.model,
                setup.pretrained,
                RunDirectory.open(Path(part.folder)).load_tensors(WEIGHTS),
            )
        return config, setup
    started = RunDirectory.open(Path(config.training.start))
    if isinstance(config, FineTuning):
        other = run_file.read(started.file(CONFIG))
        check_sizes(started, other)
        config = config.started(other)
    if process.is_main_process and not resume:
        adopt(run, started)
    process.wait_for_everyone()
    setup = TASKS[config.task].setup(config, run, process.num_processes)
    load_into(setup.model, started.load_tensors(WEIGHTS), fresh=setup.fresh)
    return config, setup


def adopt(run: RunDirectory, started: RunDirectory) -> None:
    """Copy the tokenizers of the starting run into a run."""
    for name in started.names("tokenizer.json"):
        with run.writing(name) as path:
            shutil.copyfile(started.file(name), path)


def tested(out: Path, device: str, setup: Setup, *, shown: bool) -> dict[str, float]:
    """The metrics of the finished run on the test set, as `test/...`; none without one. The time that it takes is
    `shown`."""
    if not setup.tests:
        return {}
    run = load(out, device)
    with Progress(steps=0, every=1, shown=shown).elapsed("testing"):
        found = run.evaluate(setup.tests)
    if (line := searched(run, EvaluationOptions())) is not None:
        log.info("the test figures: %s", line)
    return {f"test/{name}": figure for name, figure in found.items()}


def settled(config: RunConfig, device: str) -> RunConfig:
    """The run file with the settings that depend on the machine resolved."""
    precision = choose_precision(config.training.precision, device)
    return replace(config, training=replace(config.training, precision=precision))


@contextmanager
def folder(path: Path, resume: bool, process: PartialState) -> Iterator[RunDirectory]:
    """The run's folder, made and locked by the first process before the others read it. If a new run fails before it
    has trained, or for bad input before its first checkpoint, nothing of it stays: the next start finds what this one
    found."""
    with process.main_process_first():
        run = (
            RunDirectory.create(path, resume=resume)
            if process.is_main_process
            else RunDirectory.open(path)
        )
    with run:
        try:
            yield run
        except BaseException as error:
            trained = run.checkpoint_steps() or (
                run.has(METRICS) and not isinstance(error, InputError)
            )
            if process.is_main_process and not resume and not trained:
                run.withdraw()
            raise


def identify(config: RunConfig, setup: Setup, processes: int) -> dict[str, Any]:
    """The identity of a run: resuming requires the same, or an allowed change."""
    return {
        "format_version": FORMAT,
        "architecture": config.model.name,
        "world_size": processes,
        "tokenizer": " ".join(
            tokenizer.digest for tokenizer in setup.tokenizers.values()
        ),
        "data": setup.digest,
        "configuration": configuration(config),
    }


def saved_identity(run: RunDirectory) -> dict[str, Any]:
    """The saved identity of a run. Its run file is read again, so that keys of later versions have their defaults."""
    return run.read_object(IDENTITY) | {
        "configuration": configuration(run_file.read(run.file(CONFIG)))
    }


def configuration(config: RunConfig) -> dict[str, Any]:
    """The settings of a run file that decide which weights are learned."""
    settings = asdict(config)
    settings.pop("search", None)
    for name in HARMLESS:
        del settings["training"][name]
    return settings


def counted(config: RunConfig, setup: Setup, processes: int) -> RunConfig:
    """The run file with the updates of its epochs, if it has a number of these."""
    if config.training.epochs is None:
        return config
    return replace(
        config,
        training=config.training.of_epochs(
            len(setup.objective.batches(0)) // processes
        ),
    )


def log_setup(setup: Setup, training: Training) -> None:
    """Log what is trained on which data for how long, and what is probably not meant."""
    log.info(setup.summary)
    if setup.data is not None:
        log.info("\n  ".join(("the data", *setup.data.lines())))
        for warning in setup.data.warnings:
            log.warning("warning: %s", warning)
    log.info(
        "\n  ".join(
            filter(
                None, ("the training", training.plan(), *setup.notes, setup.simplest)
            )
        )
    )


def describe(
    run: RunDirectory, config: RunConfig, identity: dict[str, Any], setup: Setup
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
