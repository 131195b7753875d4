"""Trained runs, by their folders."""

from pathlib import Path
from typing import Any, TypeVar, overload

from regard.errors import InputError
from regard.models.fused import fuse
from regard.runs import run_file
from regard.runs.quantization import quantised
from regard.storage.run_folder import WEIGHTS, RunDirectory
from regard.storage.tensors import load_into
from regard.tasks.catalog import TASKS
from regard.training.devices import choose_device

CONFIG = "config.yaml"
R = TypeVar("R")
WHAT: dict[str, str] = {
    "language-model": "is a language model, which has no source; use `regard generate` or `regard evaluate`",
    "masked-language-model": "fills in blanks and writes no text; use `regard fill`, `embed` or `evaluate`",
    "bidirectional-language-model": "tells words from both sides and writes no text; use `regard embed` or `evaluate`",
    "classification": "tells classes and writes no text; use `regard predict`, `show` or `evaluate`",
    "image-classification": "tells classes of images and writes no text; use `regard predict` or `evaluate`",
    "image-captioning": "tells of images; use `regard predict`, `show` or `evaluate`",
    "extractive-qa": "answers questions about contexts; use `regard predict` with JSON, or `evaluate`",
    "pointer": "points to elements of a set and writes no text; use `regard predict`, `show` or `evaluate`",
    "algorithmic": "answers sequences of bits and writes no text; use `regard predict`, `show` or `evaluate`",
    "few-shot": "tells classes after a few examples and writes no text; use `regard predict`, `show` or `evaluate`",
    "meta-rl": "acts in environments and writes no text; use `regard predict`, `show` or `evaluate`",
    "multi-target": "writes several languages; use `regard predict` or `evaluate`, or in Python one of them, .of(...)",
    "seq2seq": "makes texts of texts, and continues none; use `regard predict`",
}
"""What a run of each task is, and what it is for."""


@overload
def load(path: Path | str, device: str = "auto", *, allow_missing: bool = False, int8: bool = False) -> Any: ...
@overload
def load(
    path: Path | str, device: str = "auto", *, allow_missing: bool = False, int8: bool = False, task: type[R]
) -> R: ...
def load(
    path: Path | str,
    device: str = "auto",
    *,
    allow_missing: bool = False,
    int8: bool = False,
    task: type[Any] = object,
) -> Any:
    """The trained run in the folder `path`; with `allow_missing`, parameters that its weights lack stay as initialised.
    With `int8` the weights of its linear maps are bytes, for answers on a CPU.

    What it can do depends on its task; its class is that which `task` names.

    Raises InputError that names what is missing, damaged or not a run, or not of this task, or for `int8` of a model or
    device that it is not for."""
    folder = RunDirectory.open(Path(path))
    if not folder.has(WEIGHTS):
        raise InputError(
            f"{path}: has no {WEIGHTS} yet; finish its training with `regard train ... --out {path} --resume`"
        )
    config = run_file.read(folder.file(CONFIG))
    run = TASKS[config.task].open(folder, config)
    expect(run, task, path)
    load_into(run.model, folder.load_tensors(WEIGHTS), allow_missing=allow_missing)
    run.model.to(choose_device("cpu" if int8 and device == "auto" else device)).eval()
    if int8:
        quantised(run.model, str(path))
    fuse(run.model)
    return run


def expect(run: Any, task: type[R], path: Path | str) -> R:
    """The run of the folder `path`, if it is of this task. Raises InputError for one of another."""
    if not isinstance(run, task):
        raise InputError(f"{path}: {WHAT.get(run.config.task, f'is a run of the task {run.config.task}')}")
    return run
