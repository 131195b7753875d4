"""Run files: YAML that names a task and has all its settings."""

import json
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from regard.config import yaml_file, yaml_text
from regard.config.registry import Discriminated
from regard.errors import InputError
from regard.storage.manifest import content, inside
from regard.tasks.catalog import TASKS

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


def read(path: Path, overrides: Sequence[str] = ()) -> RunConfig:
    """Read the run file at `path` with `key.sub=value` overrides. Raises InputError with the line of each mistake, or
    with the missing package of a run that was trained with one."""
    try:
        return yaml_file.load(path, RunConfig, overrides, RENAMED)
    except InputError as error:
        if absent := absent_plugins(path.parent):
            raise InputError(
                f"{path.parent}: was trained with {' and '.join(absent)}, which is not installed here; install it"
            ) from error
        raise


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
    return [each for each in map(str, plugins) if not _installed(each.partition(" ")[0])]


def _installed(package: str) -> bool:
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False


def dump(config: RunConfig) -> str:
    """The run file as YAML, every default written out."""
    return yaml_text.dump(config)
