"""From a run file to a trained run in a folder."""

import hashlib
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

from regard import run_file
from regard.catalog import build
from regard.data.pair import Splits
from regard.errors import InputError
from regard.inference.tokenizers import Tokenizers
from regard.models.encoder_decoder import EncoderDecoder
from regard.nonfinite import guarded
from regard.run_file import RunFile
from regard.runs import CONFIG, SOURCE, TARGET, load, load_tokenizers
from regard.text import Tokenizer
from regard.training.allocator import keep_freed_memory
from regard.training.compatibility import check_resume
from regard.training.devices import choose_device, choose_precision
from regard.training.loop import fit
from regard.training.pairs import PairTask, Scoring
from regard.training.run_directory import RunDirectory
from regard.version import VERSION

FORMAT = 1
IDENTITY, RESULT = "identity.json", "result.json"
HARMLESS = ("workers", "log_every", "tensorboard")
"""Settings of the training that do not change the weights and may differ when a run is resumed."""

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
        splits = config.data.load()
        kept = load_tokenizers(run, config) if run.has(SOURCE) and run.has(TARGET) else None
        tokenizers = kept or make_tokenizers(config, splits)
        torch.manual_seed(config.training.seed)
        model = build(config.model, tokenizers.source.size, tokenizers.target.size)
        check_search(config, tokenizers, attends=model.decoder.source_attention is not None)
        task = make_task(config, splits, tokenizers, model)
        identity = identify(config, splits, tokenizers, process.num_processes)
        if resume and (run.has(IDENTITY) or run.checkpoint_steps()):  # else killed before it was described
            check_resume(run.read_json(IDENTITY), identity, allow_change)
        process.wait_for_everyone()
        if process.is_main_process:
            describe(run, config, identity, tokenizers)
            announce(model, splits, tokenizers)
        with guarded(model):
            fitted = fit(model, task, config.training, run, resume=resume)
        result = {(f"valid/{name}" if name.split("/")[0] in config.metrics else name): fitted[name] for name in fitted}
        if process.is_main_process:
            result |= tested(out, device, splits)
            run.write_json(RESULT, result)
    return result


def tested(out: Path, device: str, splits: Splits) -> dict[str, float]:
    """The metrics of the finished run on the test set, as `test/...`; none without one."""
    found = load(out, device).evaluate(splits.test) if splits.test else {}
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


def make_tokenizers(config: RunFile, splits: Splits) -> Tokenizers:
    """Trained on the training pairs; the same text always gives the same tokenizers."""
    settings = config.tokenizers
    sources, targets = [pair.source for pair in splits.train], [pair.target for pair in splits.train]
    if settings.target is None:
        both = Tokenizer.train(settings.source, [*sources, *targets])
        return Tokenizers(both, both, config.copying)
    return Tokenizers(Tokenizer.train(settings.source, sources), Tokenizer.train(settings.target, targets))


def make_task(config: RunFile, splits: Splits, tokenizers: Tokenizers, model: EncoderDecoder) -> PairTask:
    """What is learned, and how it is validated: greedily. Raises InputError as `PairTask` does."""
    return PairTask(
        splits,
        tokenizers,
        config.training,
        Scoring(config.metrics, config.search.searching(beam=1)),
        model=model,
        attention=config.attention_losses,
        truncate=config.truncate,
    )


def check_search(config: RunFile, tokenizers: Tokenizers, *, attends: bool) -> None:
    """Raises InputError for a beam that the vocabulary cannot fill, or a coverage penalty where the model does not
    attend to its source, before hours are spent on training."""
    if config.search.coverage_penalty and not attends:
        raise InputError("search.coverage_penalty needs a model that attends to its source; leave it 0")
    if config.search.beam > tokenizers.target.size:
        raise InputError(
            f"search.beam is {config.search.beam}, more than the {tokenizers.target.size} entries of the target "
            "vocabulary; lower it"
        )


def identify(config: RunFile, splits: Splits, tokenizers: Tokenizers, processes: int) -> dict[str, Any]:
    """What must be the same, or knowingly changed, for a run to be resumed."""
    data = hashlib.sha256()
    for pair in (*splits.train, *splits.valid):
        data.update(f"{pair.source}\0{pair.target}\n".encode(errors="surrogatepass"))
    configuration = asdict(config)
    del configuration["search"]
    for name in HARMLESS:
        del configuration["training"][name]
    return {
        "format_version": FORMAT,
        "architecture": config.model.name,
        "world_size": processes,
        "tokenizer": f"{tokenizers.source.digest} {tokenizers.target.digest}",
        "data": data.hexdigest(),
        "configuration": configuration,
    }


def describe(run: RunDirectory, config: RunFile, identity: dict[str, Any], tokenizers: Tokenizers) -> None:
    """Write everything about a run that is known before it is trained."""
    run.write_text(CONFIG, run_file.dump(config))
    run.write_json(IDENTITY, identity)
    with run.writing(SOURCE) as path:
        tokenizers.source.save(path)
    with run.writing(TARGET) as path:
        tokenizers.target.save(path)
    packages = ("torch", "accelerate", "tokenizers", "safetensors", "sacrebleu")
    environment = {"regard": VERSION} | {name: version(name) for name in packages}
    environment |= {"python": platform.python_version(), "machine": platform.machine(), "system": platform.system()}
    run.write_json("environment.json", environment | {"threads": torch.get_num_threads()})


def announce(model: torch.nn.Module, splits: Splits, tokenizers: Tokenizers) -> None:
    """Say in the log what is about to be trained."""
    parameters = sum(parameter.numel() for parameter in model.parameters())
    log.info(
        "%s pairs to train on, %s to validate, %s to test; vocabularies of %s and %s; %s parameters",
        *(f"{count:,}" for count in (len(splits.train), len(splits.valid), len(splits.test))),
        *(f"{tokenizer.size:,}" for tokenizer in (tokenizers.source, tokenizers.target)),
        f"{parameters:,}",
    )
