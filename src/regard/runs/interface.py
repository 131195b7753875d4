"""Training from Python.

`train` takes recipes and run files, `fit` your own model and objective.
"""

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from torch import Tensor, nn
from torch.utils.data import DataLoader

from regard.data.records import Records, records_of
from regard.errors import InputError, shorten
from regard.runs import run_file
from regard.runs.recipes import path_of
from regard.runs.run_file import CONFIG, load
from regard.runs.train import train as train_file
from regard.storage.run_folder import RunDirectory
from regard.tasks.base import Setup
from regard.tasks.custom import Custom, CustomData, CustomModel, CustomRun
from regard.training.objectives import Objective, Supervised
from regard.training.settings import Training, count_parameters

if TYPE_CHECKING:
    from regard.runs.run_file import OpenedRun

Settings = Mapping[str, Any]
R = TypeVar("R")
SETS = {"validation": "valid", "dev": "valid"}
"""Other names of the sets of `data`."""
log = logging.getLogger("regard")


@overload
def train(
    recipe: str | Path, out: Path | str | None = None, *, task: type[R], **settings: Any
) -> R: ...
@overload
def train(
    recipe: str | Path,
    out: Path | str | None = None,
    *,
    task: None = None,
    **settings: Any,
) -> "OpenedRun": ...
def train(
    recipe: str | Path,
    out: Path | str | None = None,
    *,
    resume: bool = False,
    allow_change: bool = False,
    task: Any = None,
    **settings: Any,
) -> Any:
    """Train a recipe or a run file and open the run.

    For example `regard.train("dates", training={"steps": 100})`.

    Args:
        recipe: A recipe's name, or the path of a run file.
        out: The run's folder. Default: `runs/` and the recipe's name.
        resume: Continue the run that is in the folder.
        allow_change: Resume although settings, data or the environment have changed.
        task: The class of the run; see `regard.load`.
        **settings: Sections of the run file with the keys to replace, nested to any
            depth. `data` may be rows in memory: a list of mappings, a data frame, a data
            set that yields mappings, or these as its `train`, `valid`, `test`.

    Returns:
        The trained run, as `regard.load` returns it.

    Raises:
        InputError: Recipe, settings, data or folder are invalid; a line for each.
        RunError: Training failed.
    """
    path = path_of(str(recipe))
    folder = Path("runs") / path.stem if out is None else Path(out)
    named_settings, sets = name_rows(settings)
    with show_log():
        overrides = list_overrides(named_settings)
        notes: list[str] = []
        config = run_file.read(
            path, overrides, is_new=True, say=notes.append, rows=sets
        )
        train_file(
            config, folder, resume=resume, allow_change=allow_change, notes=notes
        )
        run: Any = load(folder, task=task or run_file.ANY_TASK)
    run.config = run_file.with_rows(run.config, sets)
    return run


@contextmanager
def show_log() -> Iterator[None]:
    """Print regard's log on standard error, unless the program handles logs itself.

    An error names a setting without the command line's option.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("regard: %(message)s"))
    level = log.level
    if not log.hasHandlers():
        log.addHandler(handler)
        log.setLevel(logging.INFO)
    try:
        yield
    except InputError as error:
        error.args = (str(error).replace("--set ", ""),)
        raise
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


def name_rows(settings: Settings) -> tuple[Settings, dict[str, Records]]:
    """Return settings with names instead of rows of `data`, and the rows by set.

    Raises:
        InputError: Rows are tuples.
    """
    data = settings.get("data")
    if isinstance(data, list) or records_of(data) is not None:
        data = {"train": data}
    if not isinstance(data, Mapping):
        return settings, {}
    values: dict[str, Any] = {}
    sets: dict[str, Records] = {}
    for key, value in data.items():
        name = SETS.get(key, key)
        rows = records_of(value)
        if isinstance(value, list) and value and isinstance(value[0], tuple):
            raise InputError(
                f"data.{key}: expected rows that are dictionaries by column, such as "
                f"{{'text': ..., 'label': ...}}; found {shorten(repr(value[0]))}"
            )
        if rows is not None:
            sets[name] = Records(name, rows)
        values[name] = value if rows is None else str.__str__(sets[name])
    return {**settings, "data": values}, sets


def list_overrides(settings: Settings, path: str = "") -> list[str]:
    """Return nested settings as `training.steps=100`, with values in JSON."""
    overrides = []
    for name, value in settings.items():
        if isinstance(value, Mapping) and not {"kind", "name"} & set(value):
            overrides += list_overrides(value, f"{path}{name}.")
        else:
            text = json.dumps(value, default=str, ensure_ascii=False)
            overrides.append(f"{path}{name}={text}")
    return overrides


class DatasetRows(Sequence[Any]):
    """The examples of a PyTorch dataset with a length."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self.dataset[place] for place in range(len(self))[index]]
        return self.dataset[index]


def from_loaders(
    train: DataLoader[Any],
    valid: DataLoader[Any] | None,
    loss: Callable[[Any, Any], Tensor] | None,
) -> Supervised[Any]:
    """Return the objective of loaders whose batches are inputs and targets.

    Each epoch has its own order of the training set, so that a run resumes exactly.

    Raises:
        InputError: A loader or the loss is missing, or a dataset has no length.
    """
    if loss is None or valid is None:
        raise InputError("a DataLoader needs loss=..., and valid=... to validate on")
    if not isinstance(train.dataset, Sized) or train.batch_size is None:
        raise InputError(
            "the DataLoader streams or makes batches itself; give one for a dataset "
            "with a length, and a batch_size"
        )

    def compute_loss(model: nn.Module, batch: Any) -> Tensor:
        inputs, targets = batch
        return loss(model(inputs), targets)

    return Supervised(
        train=DatasetRows(train.dataset),
        valid=DatasetRows(valid.dataset),
        collate=train.collate_fn,
        loss_of=compute_loss,
        batch_size=train.batch_size,
    )


def fit(
    model: nn.Module,
    objective: Objective | DataLoader[Any],
    out: Path | str,
    *,
    loss: Callable[[Any, Any], Tensor] | None = None,
    valid: DataLoader[Any] | None = None,
    epochs: int | float | None = None,
    resume: bool = False,
    allow_change: bool = False,
    training: Training | Settings | None = None,
) -> CustomRun:
    """Train your own model on your own objective with the training loop.

    It has exact resume, checkpoints, the best weights and several processes.

    Args:
        model: Any module; it holds the best weights afterwards, in evaluation mode.
        objective: A `regard.Supervised`, or whatever has the methods of
            `regard.training.objectives.Objective`; or a DataLoader of batches of inputs
            and targets.
        out: The run's folder, which `regard.load` opens.
        loss: For a DataLoader, the mean loss of outputs and targets.
        valid: The DataLoader of the validation.
        epochs: The number of epochs; or set `training`.
        resume: Continue the run that is in the folder.
        allow_change: Resume although settings or the environment have changed.
        training: The loop's settings, or those that differ from their defaults.

    Returns:
        The run; `regard.load(out).restore(model)` gives its weights to a new model of
        the same class.

    Raises:
        InputError: Settings or folder are invalid.
        RunError: Training failed.
    """
    if isinstance(objective, DataLoader):
        objective = from_loaders(objective, valid, loss)
    elif loss is not None or valid is not None:
        raise InputError("loss and valid belong to a DataLoader; leave them out")
    if epochs is not None:
        if training is not None:
            raise InputError(
                "epochs and training are both given; put epochs in training"
            )
        training = {"epochs": float(epochs), "validate_every": 0}
    if not isinstance(training, Training):
        try:
            training = Training(**(training or {}))
        except (ValueError, TypeError) as error:
            raise InputError(f"training: {error}") from error
    train_count = 0
    valid_count = 0
    if isinstance(objective, Supervised):
        train_count = len(objective.train)
        valid_count = len(objective.valid)
    name = f"{type(model).__module__}.{type(model).__qualname__}"
    config = Custom(
        data=CustomData(train=train_count, valid=valid_count),
        model=CustomModel(name=name),
        training=training,
    )
    digest = f"{train_count} and {valid_count} examples"
    summary = f"{name}: {count_parameters(model):,} parameters"

    def begin(
        config: Any, folder: RunDirectory, process: object, resume: bool
    ) -> tuple[Any, Setup]:
        return config, Setup(model, objective, digest, summary)

    out = Path(out)
    with show_log():
        train_file(
            config,
            out,
            resume=resume,
            allow_change=allow_change,
            begin=begin,
        )
    folder = RunDirectory.open(out)
    resolved: Any = run_file.read(folder.file(CONFIG))
    return CustomRun(resolved, folder, model.eval(), objective)
