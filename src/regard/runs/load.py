"""Trained runs, by their folders."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, overload

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils import _device

from regard.decoding.whole_search import Searcher
from regard.errors import InputError
from regard.models.fused import fuse
from regard.models.language_model import LanguageModel
from regard.nn.cells import Cell
from regard.nn.encoder_decoder import EncoderDecoder
from regard.nn.fast_linear import with_int8
from regard.runs import run_file, unfinished
from regard.storage.run_folder import WEIGHTS, RunDirectory
from regard.storage.tensors import check, check_fit, outlines
from regard.tasks.catalog import TASKS
from regard.tasks.task import RunConfig
from regard.training.devices import choose_device

CONFIG = "config.yaml"
FACTOR, FREE = 4, 1 << 28
"""A model may have this many times the bytes of its weights, and so many more, for tables that are not saved."""
TENSORS, FIRST = 10, 1000
"""Building a model may make this many tensors for each one of its weights, and so many more."""
R = TypeVar("R")


@overload
def load(
    path: Path | str,
    device: str = "auto",
    *,
    allow_missing: bool = False,
    int8: bool = False,
) -> Any: ...
@overload
def load(
    path: Path | str,
    device: str = "auto",
    *,
    allow_missing: bool = False,
    int8: bool = False,
    task: type[R],
) -> R: ...
def load(
    path: Path | str,
    device: str = "auto",
    *,
    allow_missing: bool = False,
    int8: bool = False,
    task: type[Any] = object,
) -> Any:
    """The trained run in the folder `path`, an unfinished one with the weights of its best checkpoint, or of its newest
    without a validation. With `allow_missing`, parameters that its weights lack stay as initialised. With `int8` the
    weights of its linear maps are bytes, for inference on a CPU.

    What it can do depends on its task; its class is that which `task` names.

    Raises InputError for a missing or damaged file, weights with NaN or infinity, a folder that is no run, a run of
    another task, and `int8` on an unsupported model or device."""
    folder = RunDirectory.open(Path(path))
    config = run_file.read(folder.file(CONFIG))
    tensors = (
        None if folder.has(WEIGHTS) else unfinished.weights(folder, config.training)
    )
    check_sizes(folder, config, tensors, allow_missing=allow_missing)
    run = TASKS[config.task].open(folder, config)
    expect(run, task, path)
    load_weights(
        run,
        folder.load_tensors(WEIGHTS) if tensors is None else tensors,
        path,
        allow_missing,
    )
    run.model.to(choose_device("cpu" if int8 and device == "auto" else device)).eval()
    fuse(run.model)
    if int8:
        quantised(run.model, str(path))
    return run


def load_weights(
    run: Any, tensors: Mapping[str, Tensor], path: Path | str, allow_missing: bool
) -> None:
    """Load weights into a run. Raises InputError with the `path` of the run for weights that do not fit or hold NaN."""
    try:
        run.load_weights(tensors, allow_missing=allow_missing)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def expect(run: Any, task: type[R], path: Path | str) -> R:
    """The run of the folder `path`, if it is of this task. Raises InputError for a run of another task."""
    if not isinstance(run, task):
        verbs = ", ".join(run.supports)
        raise InputError(
            f"{path}: is a run of the task {run.config.task}, which can {verbs}; expected a {task.__name__}"
        )
    return run


def quantised(model: nn.Module, place: str) -> None:
    """Quantize the weights of a model's linear maps to int8, for inference on a CPU; those of recurrent layers stay.
    Raises InputError, which names the `place` of the run, for a model that has most of its weights elsewhere, or a
    recurrent one without searches by a kernel, and for one on another device.
    """
    recurrent = any(isinstance(each, (nn.RNNBase, Cell)) for each in model.modules())
    searches = isinstance(model, EncoderDecoder) and isinstance(model.decoder, Searcher)
    if (recurrent and not searches) or not isinstance(
        model, (EncoderDecoder, LanguageModel)
    ):
        raise InputError(
            f"{place}: its model is a {type(model).__name__}; int8 is for Transformers that write text, GPT-2 among "
            "them, and the models bahdanau, luong and one-pass; leave it out"
        )
    device = next(model.parameters()).device
    if device.type != "cpu":
        raise InputError(
            f"{place}: would be on {device.type}, but int8 is for a CPU; choose one of the two"
        )
    with_int8(model)


class _Outline(TorchFunctionMode):
    """Tensors made inside have a shape but no storage, so that filling them is left out; they are counted."""

    def __init__(self, place: str, most: int) -> None:
        super().__init__()
        self.place, self.most, self.count = place, most, 0

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.Tensor.mul and not isinstance(args[1], torch.Tensor):
            return args[
                0
            ]  # without storage this and the next would load PyTorch's compiler
        if func in (torch.randn, torch.rand):
            func = torch.empty
            kwargs = {
                name: value for name, value in kwargs.items() if name != "generator"
            }
        if func in _device._device_constructors():
            kwargs = kwargs | {"device": "meta"}
            self.count += 1
            if (
                self.count > self.most
            ):  # only here: other calls restore the state of gradients
                raise InputError(
                    f"{self.place} describes far more layers than the weights have; is it of this run?"
                )
        name = getattr(func, "__name__", "")
        if name.endswith("_") and not name.startswith("_") and name != "requires_grad_":
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


def check_sizes(
    folder: RunDirectory,
    config: RunConfig,
    weights: Mapping[str, Tensor] | None = None,
    *,
    allow_missing: bool = False,
) -> None:
    """Build the run's model without storage and compare it with the weights, or with the header of the run's own file.

    Raises:
        InputError: parameters have other shapes than the weights, or the model would be far larger than these.
    """
    if weights is None:
        path = folder.file(WEIGHTS)
        header = check(path)
        count, own = len(header), path.stat().st_size
    else:
        header, count, own = (
            {},
            len(weights),
            sum(each.nbytes for each in weights.values()),
        )
    place = f"{folder.path}: its run file"
    with _Outline(place, TENSORS * count + FIRST):
        model = TASKS[config.task].open(folder, config).model
    size = sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))
    if size > FACTOR * own + FREE:
        raise InputError(
            f"{place} describes a model of {size:,} bytes, its weights have {own:,}"
        )
    if (
        next(model.parameters(), None) is not None
    ):  # a custom run gets its parameters from the weights
        check_fit(
            model,
            outlines(header) if weights is None else weights,
            allow_missing=allow_missing,
        )
