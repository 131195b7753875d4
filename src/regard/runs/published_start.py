"""Runs that start from a published model: `model: {name: pretrained, path: NAME}`."""

from dataclasses import fields, replace
from typing import Any

from torch import nn

from regard.images import Preparation
from regard.models.pretrained import PretrainedConfig, PretrainedVisionConfig
from regard.models.published_images import complete_images
from regard.runs import run_file
from regard.runs.load import CONFIG
from regard.storage.run_folder import RunDirectory
from regard.tasks.seq2seq.config import TokenizerPair
from regard.tasks.tokenizers import SOURCE, TARGET, TOKENIZER

FILLED = ("tokenizer", "tokenizers", "images")
"""Sections of a run file that come from the published model."""


def complete(config: Any, run: RunDirectory, *, writes: bool, resume: bool) -> Any:
    """Fill in what the published model decides, and copy its tokenizer into the run.

    Args:
        config: The run file.
        run: The folder of the run.
        writes: Whether this process writes into the folder.
        resume: Whether the run has begun: its own run file then has everything.

    Returns:
        The complete run file; that of another model unchanged.

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


def load_published(model: nn.Module, config: Any, run: RunDirectory) -> None:
    """Load the published weights into the model of a run that has not trained yet.

    Raises:
        InputError: The published model is missing, or its weights do not fit.
    """
    published = config.model
    if not isinstance(published, PretrainedConfig) or run.checkpoint_steps():
        return
    network: Any = model
    network.load_published(published.folder())
