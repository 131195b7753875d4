"""Run files: YAML that names a task and has all its settings."""

import json
import logging
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pydantic

from regard.config import loader, yaml_tree
from regard.config.loader import Renames
from regard.config.registry import Discriminated
from regard.errors import InputError
from regard.runs.recipes import FOLDER
from regard.storage.manifest import content, resolve_inside
from regard.tasks.catalog import TASKS
from regard.training.settings import Training, tenth

ENVIRONMENT = "environment.json"
"""The file of a run folder with the versions of packages it was trained with."""
EDITOR_LINE = "# yaml-language-server: $schema=regard.schema.json"
"""The line by which an editor checks a run file with the output of `regard schema`."""

if TYPE_CHECKING:
    from regard.tasks.run import RunConfig
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
        "masking.whole_words": False,
        "learning.signal": "regret",
        "states": "fresh",
        "vectors": None,
        "data.mixture": {},
        "data.answer_end": "answer_end",
    },
)
"""Former names and keys in run files, of this and of older run folders."""
log = logging.getLogger("regard")


def read(
    path: Path,
    settings: Sequence[str] = (),
    note_warmup: Callable[[str], None] = log.debug,
) -> RunConfig:
    """Read a run file with `key.sub=value` settings on top.

    Args:
        path: The run file.
        settings: Settings that replace those of the file; the last one wins.
        note_warmup: Takes a line where settings shorten the warm-up with the training.

    Raises:
        InputError: One line for each mistake; or a package is missing that the run
            was trained with.
    """

    def note(line: str) -> None:
        # What a recipe says beside its kind of data is an example that nobody set.
        is_example = path.parent == FOLDER and line.startswith("data.")
        log.log(logging.DEBUG if is_example else logging.INFO, line)

    settings = [*settings, *adapt_training(path, settings, note_warmup)]
    try:
        return loader.load(
            path,
            RunConfig,
            settings,
            RENAMES,
            note,
        )
    except InputError as error:
        packages = list_missing_plugins(path.parent)
        if packages:
            raise InputError(
                f"{path.parent}: was trained with {' and '.join(packages)}, which is "
                "not installed here; install it"
            ) from error
        raise


def adapt_training(
    path: Path, settings: Sequence[str], note: Callable[[str], None]
) -> list[str]:
    """Return the settings that follow from one of `training.steps`.

    It replaces the file's `epochs`; where it is lower than the file's steps, a warm-up
    that no setting gives becomes at most a tenth of the updates.
    """
    keys = {setting.partition("=")[0].strip() for setting in settings}
    if "training.steps" not in keys or "training" in keys:
        return []
    if "training.epochs" in keys:
        raise InputError(
            "training.steps and training.epochs are both set; choose one of them"
        )
    adapted = ["training.epochs=null"]
    former = read_training(path)
    training = read_training(path, settings)
    steps: Any = training.get("steps")
    warmup: Any = former.get("warmup", Training.warmup)
    former_steps = former.get("steps", Training.steps)
    numbers = (steps, former_steps, warmup)
    is_checked = all(type(number) is int for number in numbers)
    if "training.warmup" in keys or not is_checked or steps >= former_steps:
        return adapted
    shortened = min(warmup, tenth(steps))
    if shortened < warmup:
        note(
            f"training.steps is lowered to {steps:,}, and the warm-up from {warmup:,} "
            f"to {shortened:,} updates"
        )
    return [*adapted, f"training.warmup={shortened}"]


def read_training(path: Path, settings: Sequence[str] = ()) -> dict[str, Any]:
    """Return the settings of training in a file, without checking them."""
    root, _ = loader.read_tree(path, settings)
    training = root.plain().get("training")
    return training if isinstance(training, dict) else {}


def list_missing_plugins(folder: Path) -> list[str]:
    """Return the packages that a run was trained with and that are not installed."""
    try:
        environment = json.loads(content(resolve_inside(folder, ENVIRONMENT)))
    except (OSError, ValueError, RecursionError, InputError):
        # No run's folder, or a damaged one, which the manifest's reader reports.
        return []
    plugins = environment.get("plugins", []) if isinstance(environment, dict) else []
    missing = []
    for package in map(str, plugins):
        try:
            version(package.partition(" ")[0])
        except PackageNotFoundError:
            missing.append(package)
    return missing


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
