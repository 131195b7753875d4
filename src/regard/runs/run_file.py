"""Run files, and trained runs."""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, overload

import pydantic
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils import _device

from regard.config import loader, yaml_tree
from regard.config.loader import Discriminated, Renames
from regard.data.usual_columns import (
    IGNORE,
    SEPARATOR,
    recognize_columns,
    recognize_sets,
)
from regard.errors import InputError
from regard.runs.recipes import FOLDER
from regard.storage.run_folder import CONFIG, WEIGHTS, RunDirectory, is_run
from regard.storage.tensors import check_fit, outline
from regard.tasks.catalog import TASKS
from regard.training.settings import Training, choose_device, tenth

PUBLISHED = "regard.hub.open_run:open_published"
"""The function that makes a run of a published model."""
ENVIRONMENT = "environment.json"
"""The file of a run folder with the versions of packages it was trained with."""
EDITOR_LINE = "# yaml-language-server: $schema=regard.schema.json"
"""The line by which an editor checks a run file with the output of `regard schema`."""

if TYPE_CHECKING:
    from regard.tasks.run import Run, RunConfig

    class OpenedRun(Run[Any, Any]):
        """A run of any task, with the further methods of its class."""

        def __getattr__(self, name: str) -> Any: ...

else:
    RunConfig = Annotated[Any, Discriminated("task", TASKS, "config")]

RENAMES = Renames(
    values={
        "task": {
            "text-to-text": "seq2seq",
            "text-to-texts": "multi-target",
            "span-answers": "extractive-qa",
            "pointing": "pointer",
            "bit-sequences": "algorithmic",
            "acting": "meta-rl",
        }
    },
    keys={"model.trunk.vit": "path"},
    retired={
        "model.closed": 0,
        "model.discriminator": False,
        "model.distilled": False,
        "model.embedding": None,
        "model.halving": "convolution",
        "model.pooled": "tanh",
        "model.variational": True,
        "model.relative": None,
        "model.trunk.sizes.distilled": False,
        "search.brevity_penalty": 0.0,
        "search.brevity_ratio": 1.0,
        "search.coverage_penalty": 0.0,
        "search.diversity": 0.5,
        "search.groups": 1,
        "training.average_last": 0,
        "training.gathered_precision": "fp32",
        "training.offload": False,
        "training.plateau_factor": 0.5,
        "training.plateau_patience": 2,
        "training.recompute": False,
        "training.sharded": False,
        "training.stop_above": 0.0,
        "training.tracker": None,
        "masking.whole_words": False,
        "learning.signal": "regret",
        "states": "fresh",
        "vectors": None,
        "data.mixture": {},
        "data.answer_end": "answer_end",
        "data.shortest": 0.03,
        "data.longest": 0.35,
        "data.quieter": 12.0,
    },
)
"""Former names and keys in run files, of this and of older run folders."""
log = logging.getLogger("regard")


def read(
    path: Path,
    settings: Sequence[str] = (),
    *,
    is_new: bool = False,
    say: Callable[[str], object] = log.info,
    rows: Mapping[str, Any] | None = None,
) -> RunConfig:
    """Read a run file with `key.sub=value` settings on top.

    Args:
        path: The run file.
        settings: Settings that replace the file's; the last one wins.
        is_new: Recognize usual columns of the table, for a new training. Opening an
            existing run needs no data.
        say: Is called with a line for each of these columns.
        rows: Rows in memory for keys of `data`.

    Raises:
        InputError: One line for each mistake.
    """

    def note(line: str) -> None:
        # What a recipe says beside its kind of data is an example that nobody set.
        is_example = path.parent == FOLDER and line.startswith("data.")
        log.log(logging.DEBUG if is_example else logging.INFO, line)

    adapted = adapt_training(path, settings)
    changes = [*settings, *adapted]
    config = loader.load(path, RunConfig, changes, RENAMES, note)
    recognized = []
    if is_new:
        recognized = recognize(with_rows(config, rows), path, settings, say)
    if recognized:
        config = loader.load(path, RunConfig, [*changes, *recognized], RENAMES, note)
    if any(setting.startswith("training.warmup=") for setting in adapted):
        log.info("%s, to fit the lowered training.steps", adapted[-1])
    return with_rows(config, rows)


def with_rows(config: RunConfig, rows: Mapping[str, Any] | None) -> RunConfig:
    """Return a configuration with rows in memory instead of their names."""
    return replace(config, data=replace(config.data, **rows)) if rows else config


def recognize(
    config: RunConfig,
    path: Path,
    settings: Sequence[str],
    say: Callable[[str], object],
) -> list[str]:
    """Return the settings of usual names that nobody set, and say which these are.

    The columns of a recipe are examples.
    """
    data = None
    if path.parent != FOLDER:
        data = loader.read_tree(path, ()).plain().get("data")
    set_keys = {*(data or ())}
    for setting in settings:
        section, _, key = setting.partition("=")[0].strip().partition(".")
        if section == "data" and not key:
            return []
        set_keys |= {key} if section == "data" else set()
    if sets := recognize_sets(config.data, set_keys):
        names = " and ".join(f"{Path(folder).name}/" for folder in sets.values())
        say(f"using {names} of {config.data.train}")
    section = replace(config.data, **sets) if sets else config.data
    columns = recognize_columns(section, set_keys)
    for key, column in columns.items():
        names = column if isinstance(column, list) else [column]
        word = "columns " if len(names) > 1 else "column "
        if key in (SEPARATOR, IGNORE):
            word = ""
        say(f"using {word}{', '.join(map(repr, names))} as {key}")
    return [f"data.{key}={json.dumps(name)}" for key, name in (sets | columns).items()]


def adapt_training(path: Path, settings: Sequence[str]) -> list[str]:
    """Return the settings that follow from one of `training.steps`.

    It replaces the file's `epochs`. Where it is lower than the file's steps, a warm-up
    that no setting gives becomes at most a tenth of the updates.

    Raises:
        InputError: `training.epochs` is set too.
    """
    keys = {setting.partition("=")[0].strip() for setting in settings}
    if "training.steps" not in keys or "training" in keys:
        return []
    if "training.epochs" in keys:
        raise InputError(
            "training.steps and training.epochs are both set; choose one of them"
        )
    adapted = ["training.epochs=null"]
    former, training = (
        loader.read_tree(path, changes).plain().get("training")
        for changes in ((), settings)
    )
    if "training.warmup" in keys or not (former and isinstance(training, dict)):
        return adapted
    steps = training["steps"]
    former_steps = former.get("steps", Training.steps)
    warmup = former.get("warmup", Training.warmup)
    are_numbers = all(type(number) is int for number in (steps, former_steps, warmup))
    if are_numbers and steps < former_steps and tenth(steps) < warmup:
        adapted.append(f"training.warmup={tenth(steps)}")
    return adapted


def dump(config: RunConfig) -> str:
    """Return a run file as YAML, every default written out."""
    return yaml_tree.dump(config)


def make_schema() -> dict[str, Any]:
    """Return the JSON schema of run files, from all tasks and models."""
    options = pydantic.ConfigDict(
        use_attribute_docstrings=True, arbitrary_types_allowed=True, extra="forbid"
    )
    adapter = pydantic.TypeAdapter(RunConfig, config=options)
    return {"title": "A run file of regard"} | adapter.json_schema()


SIZE_FACTOR, FREE_SIZE = 4, 1 << 28
"""A model may have this many times the bytes of its weights, plus this constant, for
tables that are not saved."""
TENSOR_FACTOR, FREE_TENSORS = 10, 1000
"""A model may make this many tensors for each one of its weights, plus this constant."""
R = TypeVar("R")
ANY_TASK: Any = object


@overload
def load(
    path: Path | str,
    device: str = "auto",
    *,
    allow_missing: bool = False,
    int8: bool = False,
) -> "OpenedRun": ...
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
    task: Any = ANY_TASK,
) -> Any:
    """Open the trained run in a folder, or a published model, imported as one.

    Args:
        path: The folder, or the model's name on the hub. An unfinished run gets the
            weights of its best checkpoint, or of its newest without a validation.
        device: The kind of device; `auto` is an accelerator if there is one.
        allow_missing: Leave parameters that the weights lack as they are initialized.
        int8: Multiply in 8-bit integers by the run's engine (`Run.use_engine`).
        task: The class that the run must have; what a run can do depends on it.

    Raises:
        InputError: A file is missing or damaged, weights are not finite, the folder is
            no run or of another task, or `int8` is not supported.
        RunError: The hub does not answer.
    """
    origin = Path(path)
    if not is_run(origin):
        origin = resolve_name(PUBLISHED)(path)
    if not isinstance(origin, Path):
        return check_class(origin, task, path)
    folder = RunDirectory.open(origin)
    config = read(folder.file(CONFIG))
    is_finished = folder.has(WEIGHTS)
    tensors = None if is_finished else read_checkpoint(folder, config.training)
    check_sizes(folder, config, tensors, allow_missing=allow_missing)
    run: Any = TASKS[config.task].run.open(folder, config)
    run.folder = folder
    check_class(run, task, path)
    if tensors is None:
        tensors = folder.load_tensors(WEIGHTS)
    try:
        run.load_weights(tensors, allow_missing=allow_missing)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    run.model.to(choose_device("cpu" if int8 and device == "auto" else device)).eval()
    if is_finished and not allow_missing:
        run.use_engine(folder, int8=int8)
    elif int8:
        raise InputError(
            f"{path}: --int8 needs the weights of a finished training. "
            "Remove --int8, or finish the training with --resume."
        )
    return run


def check_class(run: Any, task: type[R], path: Path | str) -> R:
    """Return a run. Raise InputError if it is not of the class of a task."""
    if not issubclass(type(run), task):
        raise InputError(
            f"{path}: is a run of the task {run.config.task}, which can "
            f"{', '.join(run.supports)}; expected a {task.__name__}"
        )
    return run


class ModelOutline(TorchFunctionMode):
    """A mode in which tensors have a shape but no storage, and are counted.

    Filling them is left out.
    """

    def __init__(self, location: str, limit: int) -> None:
        super().__init__()
        self.location = location
        self.limit = limit
        self.count = 0

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.Tensor.mul and not isinstance(args[1], torch.Tensor):
            # Without storage this and the next would load PyTorch's compiler.
            return args[0]
        if func in (torch.randn, torch.rand):
            func = torch.empty
            kwargs.pop("generator", None)
        # ConvNeXt reads the numbers, one for each layer
        has_numbers = func is torch.linspace and kwargs.get("device") == "cpu"
        if func in _device._device_constructors():
            if not has_numbers:
                kwargs["device"] = "meta"
            self.count += kwargs.get("steps", args[-1]) if has_numbers else 1
            if self.count > self.limit:  # other calls restore the state of gradients
                raise InputError(
                    f"{self.location} describes far more layers than the weights have; "
                    "is it of this run?"
                )
        name = getattr(func, "__name__", "")
        fills = name.endswith("_") and not name.startswith("_")
        if fills and name != "requires_grad_":
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


def check_sizes(
    folder: RunDirectory,
    config: RunConfig,
    tensors: Mapping[str, Tensor] | None = None,
    *,
    allow_missing: bool = False,
) -> None:
    """Build the run's model without storage and compare it with its weights.

    Args:
        folder: The folder of the run.
        config: Its run file.
        tensors: The weights; by default the header of the run's own file.
        allow_missing: Whether weights may lack parameters.

    Raises:
        InputError: Parameters have other shapes than the weights, or the model would
            be far larger than these.
    """
    if tensors is None:
        tensors = outline(folder.file(WEIGHTS))
    count = len(tensors)
    size = sum(tensor.nbytes for tensor in tensors.values())
    location = f"{folder.path}: its run file"
    with ModelOutline(location, TENSOR_FACTOR * count + FREE_TENSORS):
        model = TASKS[config.task].run.open(folder, config).model
    parts = [*model.parameters(), *model.buffers()]
    model_size = sum(part.nbytes for part in parts)
    if model_size > SIZE_FACTOR * size + FREE_SIZE:
        raise InputError(
            f"{location} describes a model of {model_size:,} bytes, its weights have "
            f"{size:,}"
        )
    # A custom run gets its parameters from the weights.
    if next(model.parameters(), None) is not None:
        check_fit(model, tensors, allow_missing=allow_missing)


def read_checkpoint(folder: RunDirectory, settings: Training) -> dict[str, Tensor]:
    """Return the weights of the best checkpoint, or of the newest without a validation.

    They are averaged where the run averages them. A line says which checkpoint it is.
    Nothing is written to the folder, since another process may be training the run.

    Raises:
        InputError: The checkpoint is missing or damaged.
    """
    checkpoint = folder.checkpoints.newest()
    if checkpoint is None:
        raise InputError(
            f"{folder.path}: has no {WEIGHTS} yet; finish its training with `regard "
            f"train ... --out {folder.path} --resume`"
        )
    kind = "newest"
    match checkpoint.state:
        case {"selection": {"best": [{"update": int(update)}, *_]}}:
            kind = "best"
            if update != checkpoint.step:
                checkpoint = folder.checkpoints.load(update)
    log.warning(
        "%s: this run is unfinished: its %s checkpoint, of update %d, is used; regard "
        "train --out %s --resume continues it",
        *(folder.path, kind, checkpoint.step, folder.path),
    )
    weights = checkpoint.tensors("model")
    if settings.average_decay:
        return apply_average(weights, checkpoint.tensors("average"))
    return weights


def apply_average(
    weights: Mapping[str, Tensor], average: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return a checkpoint's weights with their averages.

    It has tied weights by each name and their average by one: a weight without an
    average gets the one of an equal weight.
    """
    result = {**weights, **average}
    for name in weights.keys() - average.keys():
        for candidate in average:
            if torch.equal(weights[candidate], weights[name]):
                result[name] = average[candidate]
                break
    return result
