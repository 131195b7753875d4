"""Training from Python: `train` takes recipes and run files, `fit` a model and an objective of your own."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

from torch import nn

from regard.data.memory import Records, records_of
from regard.errors import InputError
from regard.runs import run_file
from regard.runs.load import CONFIG, load
from regard.runs.recipes import path_of
from regard.runs.train import train as train_file
from regard.runs.train import train_setup
from regard.storage.run_folder import RunDirectory
from regard.tasks.custom.config import Custom, CustomData, CustomModel
from regard.tasks.custom.run import CustomRun
from regard.tasks.setup import Setup
from regard.training.objective import Objective
from regard.training.settings import Training
from regard.training.state import count_parameters
from regard.training.supervised import Supervised

Settings = Mapping[str, Any]
SETS = {"validation": "valid", "dev": "valid"}
"""Other names of the sets of `data`."""


def train(
    recipe: str | Path,
    out: Path | str | None = None,
    *,
    resume: bool = False,
    allow_change: bool = False,
    **settings: Any,
) -> Any:
    """Train a recipe or a run file and open the run: `regard.train("dates", training={"steps": 100})`.

    Args:
        recipe: a recipe's name, or the path of a run file.
        out: the run's folder. Default: `runs/` and the recipe's name.
        resume: continue the run that is in the folder.
        allow_change: resume although settings, data or the environment have changed.
        settings: sections of the run file with the keys to replace, nested to any depth. `data` may be rows in memory:
            a list of mappings, a data frame, a data set that yields mappings, or these as its `train`, `valid`, `test`.

    Returns: the trained run, as `regard.load` returns it.

    Raises:
        InputError: recipe, settings, data or folder are invalid; a line for each mistake.
        RunError: training failed.
    """
    path = path_of(str(recipe))
    folder = Path("runs") / path.stem if out is None else Path(out)
    named, sets = in_memory(settings)
    notes: list[str] = []
    config = run_file.read(path, list(overrides(named)), notes.append)
    config = replace(config, data=with_rows(config.data, sets))
    train_file(config, folder, resume=resume, allow_change=allow_change, notes=notes)
    run = load(folder)
    run.config = replace(run.config, data=with_rows(run.config.data, sets))
    return run


def in_memory(settings: Settings) -> tuple[Settings, dict[str, Records]]:
    """The settings with a name in place of rows of `data`, and the rows by the name of their set."""
    data = settings.get("data")
    if records_of(data) is not None:
        data = {"train": data}
    if not isinstance(data, Mapping):
        return settings, {}
    keyed = {SETS.get(name, name): each for name, each in data.items()}
    sets = {
        name: Records(name, found)
        for name, each in keyed.items()
        if (found := records_of(each)) is not None
    }
    return {
        **settings,
        "data": {**keyed, **{name: str.__str__(each) for name, each in sets.items()}},
    }, sets


def with_rows(data: Any, sets: Mapping[str, Records]) -> Any:
    """A `data:` section with the rows of some sets in place of their names."""
    return replace(data, **sets) if sets else data


def overrides(settings: Settings, before: str = "") -> Iterator[str]:
    """`{"training": {"steps": 100}}` -> `training.steps=100`, each value as JSON, which is YAML too."""
    for name, value in settings.items():
        if isinstance(value, Mapping) and not {"kind", "name"} & set(value):
            yield from overrides(value, f"{before}{name}.")
        else:
            yield f"{before}{name}={json.dumps(value, default=str, ensure_ascii=False)}"


M = TypeVar("M", bound=nn.Module)


def fit(
    model: nn.Module,
    objective: Objective,
    out: Path | str,
    *,
    resume: bool = False,
    allow_change: bool = False,
    training: Training | Settings | None = None,
) -> CustomRun:
    """Train your own model on your own objective with the training loop: exact resume, checkpoints, the best weights,
    several processes.

    Args:
        model: any module; it holds the best weights afterwards, in evaluation mode.
        objective: a `regard.Supervised`, or whatever has the methods of `training.objective.Objective`.
        out: the run's folder, which `regard.load` opens.
        resume: continue the run that is in the folder.
        allow_change: resume although settings or the environment have changed.
        training: the loop's settings, or those that differ from their defaults.

    Returns: the run; `regard.load(out).restore(model)` gives its weights to a new model of the same class.

    Raises:
        InputError: settings or folder are invalid.
        RunError: training failed.
    """
    settings = training if isinstance(training, Training) else checked(training or {})
    counts = (
        (len(objective.train), len(objective.valid))
        if isinstance(objective, Supervised)
        else (0, 0)
    )
    name = f"{type(model).__module__}.{type(model).__qualname__}"
    config = Custom(
        data=CustomData(train=counts[0], valid=counts[1]),
        model=CustomModel(name=name),
        training=settings,
    )
    summary = f"{name}: {count_parameters(model):,} parameters"

    def begin(
        config: Any, folder: RunDirectory, process: object, resume: bool
    ) -> tuple[Any, Setup]:
        return config, Setup(
            model, objective, f"{counts[0]} and {counts[1]} examples", summary
        )

    train_setup(config, begin, Path(out), resume=resume, allow_change=allow_change)
    folder = RunDirectory.open(Path(out))
    settled: Any = run_file.read(folder.file(CONFIG))
    return CustomRun(settled, folder, model.eval(), objective)


def checked(settings: Settings) -> Training:
    """Raises InputError for a setting that the loop does not have, or a value out of range."""
    known = {each.name for each in fields(Training)}
    if unknown := [name for name in settings if name not in known]:
        raise InputError(
            f"training.{unknown[0]} is no setting; there are {', '.join(sorted(known))}"
        )
    try:
        return replace(Training(), **settings)
    except ValueError as error:
        raise InputError(f"training: {error}") from error
