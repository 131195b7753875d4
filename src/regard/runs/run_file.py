"""Run files: YAML that names a task and gives all that the task needs to know."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from regard.config import yaml_file
from regard.config.registry import Discriminated
from regard.tasks.catalog import TASKS

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
"""Former values of keys, with those that replace them: they are read for one more version, with a warning."""


def read(path: Path, overrides: Sequence[str] = ()) -> RunConfig:
    """Read the run file at `path` with `key.sub=value` overrides. Raises InputError: each mistake with its line."""
    return yaml_file.load(path, RunConfig, overrides, RENAMED)


def dump(config: RunConfig) -> str:
    """The run file as YAML, every default written out."""
    return yaml_file.dump(config)
