"""Run files: YAML that names a task and has all its settings."""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from regard.config import yaml_file, yaml_text
from regard.config.registry import Discriminated
from regard.errors import InputError
from regard.runs.recipes.shipped import FOLDER
from regard.storage.manifest import content, inside
from regard.tasks.catalog import TASKS
from regard.training.settings import Training, tenth

ENVIRONMENT = "environment.json"
"""The file of a run folder that holds the versions of packages it was trained with."""

if TYPE_CHECKING:
    from regard.tasks.task import RunConfig
else:
    RunConfig = Annotated[Any, Discriminated("task", TASKS, "config")]

RENAMED = {
    "task": {
        "text-to-text": "seq2seq",
        "text-to-texts": "multi-target",
        "span-answers": "extractive-qa",
        "pointing": "pointer",
        "bit-sequences": "algorithmic",
        "acting": "meta-rl",
    }
}
"""Former values of keys and their replacements; one more version reads them, with a warning."""


TARGET = "tokenizers.target."
"""The keys of the tokenizer of targets."""


log = logging.getLogger("regard")


def read(
    path: Path,
    overrides: Sequence[str] = (),
    shortened: Callable[[str], None] = log.debug,
) -> RunConfig:
    """Read the run file at `path` with `key.sub=value` overrides; `shortened` gets a line on the warm-up where they
    shorten it with the training. Raises InputError with the line of each mistake, or with the missing package of a run
    that was trained with one."""

    def note(line: str) -> None:
        # What a recipe names beside its kind of data is an example, which nobody set.
        example = path.parent == FOLDER and line.startswith("data.")
        log.log(logging.DEBUG if example else logging.INFO, line)

    try:
        return yaml_file.load(
            path,
            RunConfig,
            [*overrides, *_following(path, overrides, shortened)],
            RENAMED,
            note,
        )
    except InputError as error:
        if absent := absent_plugins(path.parent):
            raise InputError(
                f"{path.parent}: was trained with {' and '.join(absent)}, which is not installed here; install it"
            ) from error
        raise


def check_shared(path: Path, overrides: Sequence[str] = ()) -> None:
    """Raises InputError for settings of a target's tokenizer where both sides share the source's."""
    own = [
        key
        for each in overrides
        if (key := each.partition("=")[0].strip()).startswith(TARGET)
    ]
    pair = (
        yaml_file.tree(path, Mapping[str, Any], overrides)[0].plain().get("tokenizers")
        if own
        else None
    )
    if isinstance(pair, dict) and pair.get("shared") is True:
        source = own[0].replace(TARGET, "tokenizers.source.", 1)
        raise InputError(
            f"--set {own[0]}: the recipe shares the source's tokenizer; set {source} alone"
        )


def check_training(path: Path, overrides: Sequence[str] = ()) -> None:
    """Raises InputError where the settings of training contradict each other; no model is imported for it."""
    _training(path, [*overrides, *_following(path, overrides)])


def _training(path: Path, overrides: Sequence[str]) -> Training:
    return yaml_file.part(path, "training", Training, overrides)


def _following(
    path: Path, overrides: Sequence[str], note: Callable[[str], None] = log.debug
) -> list[str]:
    """Overrides that follow from one of `training.steps`: it replaces the file's `epochs`, and where it is lower than
    the file's steps and the warm-up is not overridden too, this becomes at most a tenth of the updates."""
    changed = {each.partition("=")[0].strip() for each in overrides}
    if "training.steps" not in changed or "training" in changed:
        return []
    if "training.epochs" in changed:
        raise InputError(
            "training.steps and training.epochs are both set; choose one of them"
        )
    free = [
        "training.epochs=null",
        *(["training.warmup=0"] if "training.warmup" not in changed else []),
    ]
    steps = _training(path, [*overrides, *free]).steps
    if "training.warmup" in changed:
        return free
    own = _training(
        path,
        [
            each
            for each in overrides
            if each.partition("=")[0].strip() != "training.steps"
        ],
    )
    warmup = own.warmup if steps >= own.steps else min(own.warmup, tenth(steps))
    if warmup < own.warmup:
        note(
            f"training.steps is lowered to {steps:,}, and the warm-up from {own.warmup:,} to {warmup:,} updates"
        )
    return ["training.epochs=null", f"training.warmup={warmup}"]


def absent_plugins(folder: Path) -> list[str]:
    """The packages that a run was trained with and that are not installed."""
    try:
        environment = json.loads(content(inside(folder, ENVIRONMENT)))
    except (
        OSError,
        ValueError,
        RecursionError,
        InputError,
    ):  # no run's folder, or a damaged one, which the manifest's reader reports
        return []
    plugins = environment.get("plugins", []) if isinstance(environment, dict) else []
    return [
        each for each in map(str, plugins) if not _installed(each.partition(" ")[0])
    ]


def _installed(package: str) -> bool:
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False


def dump(config: RunConfig) -> str:
    """The run file as YAML, every default written out."""
    return yaml_text.dump(config)
