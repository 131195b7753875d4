"""From a run file to a trained run in a folder."""

import logging
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState

from regard.errors import InputError
from regard.nonfinite import guarded
from regard.runs import run_file
from regard.runs.compatibility import check_resume
from regard.runs.load import CONFIG, load
from regard.runs.run_file import RunFile
from regard.storage.run_folder import WEIGHTS, RunDirectory
from regard.storage.tensors import load_into
from regard.tasks.algorithmic.config import BitSequencing
from regard.tasks.algorithmic.setup import prepare as prepare_bit_sequences
from regard.tasks.bidirectional_language_model.config import BidirectionalLanguageModelling
from regard.tasks.bidirectional_language_model.setup import prepare as prepare_bidirectional_language_model
from regard.tasks.classification.config import Classification
from regard.tasks.classification.setup import prepare as prepare_classification
from regard.tasks.extractive_qa.config import SpanAnswers
from regard.tasks.extractive_qa.setup import prepare as prepare_span_answers
from regard.tasks.few_shot.config import FewShot
from regard.tasks.few_shot.setup import prepare as prepare_few_shot
from regard.tasks.fine_tuning import Startable
from regard.tasks.image_captioning.config import ImageCaptioning
from regard.tasks.image_captioning.setup import prepare as prepare_image_captioning
from regard.tasks.image_classification.config import ImageClassification
from regard.tasks.image_classification.setup import prepare as prepare_image_classification
from regard.tasks.language_model.config import LanguageModelling
from regard.tasks.language_model.setup import prepare as prepare_language_model
from regard.tasks.masked_language_model.config import MaskedLanguageModelling
from regard.tasks.masked_language_model.setup import prepare as prepare_masked_language_model
from regard.tasks.meta_rl.config import Acting
from regard.tasks.meta_rl.setup import prepare as prepare_acting
from regard.tasks.multi_target.config import TextToTexts
from regard.tasks.multi_target.setup import prepare as prepare_text_to_texts
from regard.tasks.pointer.config import Pointing
from regard.tasks.pointer.setup import prepare as prepare_pointing
from regard.tasks.pretrained_part import Taking, fill_in
from regard.tasks.seq2seq.setup import prepare as prepare_text_to_text
from regard.tasks.setup import Job
from regard.training.allocator import keep_freed_memory
from regard.training.devices import choose_device, choose_precision
from regard.training.loop import fit
from regard.version import VERSION

FORMAT = 2
IDENTITY, RESULT = "identity.json", "result.json"
ABOUT_TRAINING = ("seconds", "steps", "parameters", "tokens_per_second")
"""What `fit` tells beside the figures of the validation."""
HARMLESS = ("workers", "log_every", "tensorboard")
"""Settings of the training that do not change the weights and may differ when a run is resumed."""
LATER = {"training": {"compile": False}, "model": {"trunk": None}}
"""Settings that earlier runs do not have, with what they were trained with."""

log = logging.getLogger("regard")


def train(config: RunFile, out: Path, *, resume: bool = False, allow_change: bool = False) -> dict[str, float]:
    """Train what `config` says and leave everything in the folder `out`; with `resume`, go on with what is there.

    Under torchrun or `accelerate launch` every process calls it; the first one writes, all of them need to see `out`.

    Returns: the figures of `result.json`: the metrics on the validation set, decoded greedily, as `valid/...`; on the
        test set, if there is one, with the run's search, as `test/...`; seconds, steps, parameters, tokens_per_second.

    Raises:
        InputError: the data, the folder, the device or a change since the run began are not as they must be.
        RunError: training failed.
    """
    keep_freed_memory()
    device = choose_device(config.training.device)
    config = settled(config, device)
    process = PartialState(cpu=device == "cpu")
    with folder(out, resume, process) as run:
        torch.manual_seed(config.training.seed)
        config, job = begin(config, run, process, resume)
        identity = identify(config, job, process.num_processes)
        if resume and (run.has(IDENTITY) or run.checkpoint_steps()):  # else killed before it was described
            check_resume(run.read_json(IDENTITY), identity, allow_change)
        process.wait_for_everyone()
        if process.is_main_process:
            describe(run, config, identity, job)
            log.info(job.summary)
        with guarded(job.model):
            fitted = fit(job.model, job.task, config.training, run, resume=resume)
        result = {name if name in ABOUT_TRAINING else f"valid/{name}": figure for name, figure in fitted.items()}
        if process.is_main_process:
            result |= tested(out, device, job)
            run.write_json(RESULT, result)
    return result


def begin(config: RunFile, run: RunDirectory, process: PartialState, resume: bool) -> tuple[RunFile, Job]:
    """What is trained, with what it takes from other runs: that which gives a part of its model, and that which it
    starts from. Raises InputError."""
    taken = config.taken if isinstance(config, Taking) else None
    if isinstance(config, Taking) and taken is not None and not taken.sized:
        other = run_file.read(RunDirectory.open(Path(taken.folder)).file(CONFIG))
        taken.check(other)
        config = config.with_sizes(other)
    if config.training.start is None:
        job = prepare(config, run, process.num_processes)
        if taken is not None and not run.checkpoint_steps():
            fill_in(job.model, job.taken, RunDirectory.open(Path(taken.folder)).load_tensors(WEIGHTS))
        return config, job
    started = RunDirectory.open(Path(config.training.start))
    if isinstance(config, Startable):
        config = config.started(run_file.read(started.file(CONFIG)))
    if process.is_main_process and not resume:
        adopt(run, started)
    process.wait_for_everyone()
    job = prepare(config, run, process.num_processes)
    load_into(job.model, started.load_tensors(WEIGHTS), fresh=job.fresh)
    return config, job


def adopt(run: RunDirectory, started: RunDirectory) -> None:
    """Give a run the tokenizers of the one that it starts from."""
    for name in started.names("tokenizer.json"):
        with run.writing(name) as path:
            shutil.copyfile(started.file(name), path)


def prepare(config: RunFile, run: RunDirectory, processes: int) -> Job:
    """What the run's task needs. Raises InputError."""
    match config:
        case LanguageModelling():
            return prepare_language_model(config, run, processes)
        case MaskedLanguageModelling():
            return prepare_masked_language_model(config, run)
        case BidirectionalLanguageModelling():
            return prepare_bidirectional_language_model(config, run)
        case Classification():
            return prepare_classification(config, run)
        case ImageClassification():
            return prepare_image_classification(config)
        case ImageCaptioning():
            return prepare_image_captioning(config, run)
        case SpanAnswers():
            return prepare_span_answers(config, run)
        case Pointing():
            return prepare_pointing(config)
        case BitSequencing():
            return prepare_bit_sequences(config)
        case FewShot():
            return prepare_few_shot(config)
        case Acting():
            return prepare_acting(config)
        case TextToTexts():
            return prepare_text_to_texts(config, run)
        case _:
            return prepare_text_to_text(config, run)


def tested(out: Path, device: str, job: Job) -> dict[str, float]:
    """The metrics of the finished run on the test set, as `test/...`; none without one."""
    found = load(out, device).evaluate(job.tests) if job.tests else {}
    return {f"test/{name}": figure for name, figure in found.items()}


def settled(config: RunFile, device: str) -> RunFile:
    """The run file with what depends on the machine chosen, so that it is written down."""
    precision = choose_precision(config.training.precision, device)
    return replace(config, training=replace(config.training, precision=precision))


@contextmanager
def folder(path: Path, resume: bool, process: PartialState) -> Iterator[RunDirectory]:
    """The run's folder, made and locked by the first process before the others read it. A new run whose settings turn
    out to be wrong before anything is saved leaves no folder behind."""
    with process.main_process_first():
        run = RunDirectory.create(path, resume=resume) if process.is_main_process else RunDirectory.open(path)
    with run:
        try:
            yield run
        except InputError:
            if process.is_main_process and not resume and not run.checkpoint_steps():
                shutil.rmtree(path)
            raise


def identify(config: RunFile, job: Job, processes: int) -> dict[str, Any]:
    """What must be the same, or knowingly changed, for a run to be resumed."""
    configuration = asdict(config)
    configuration.pop("search", None)
    for name in HARMLESS:
        del configuration["training"][name]
    for part, settings in LATER.items():
        found = configuration[part]
        configuration[part] = {name: value for name, value in found.items() if (name, value) not in settings.items()}
    return {
        "format_version": FORMAT,
        "architecture": configuration["model"]["name"],
        "world_size": processes,
        "tokenizer": " ".join(tokenizer.digest for tokenizer in job.tokenizers.values()),
        "data": job.digest,
        "configuration": configuration,
    }


def describe(run: RunDirectory, config: RunFile, identity: dict[str, Any], job: Job) -> None:
    """Write everything about a run that is known before it is trained."""
    run.write_text(CONFIG, run_file.dump(config))
    run.write_json(IDENTITY, identity)
    for name, tokenizer in job.tokenizers.items():
        with run.writing(name) as path:
            tokenizer.save(path)
    for name, value in job.kept.items():
        run.write_json(name, value)
    packages = ("torch", "accelerate", "tokenizers", "safetensors", "sacrebleu")
    environment = {"regard": VERSION} | {name: version(name) for name in packages}
    environment |= {"python": platform.python_version(), "machine": platform.machine(), "system": platform.system()}
    run.write_json("environment.json", environment | {"threads": config.training.threads or torch.get_num_threads()})
