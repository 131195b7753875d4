"""The keys of run files: their schema, which is stored so that a run file is checked without importing a model.

`python -m docs.making.keys` writes the stored schema; a test compares it with the dataclasses.
"""

import json
from collections.abc import Sequence
from functools import cache
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path

from regard.config import yaml_file
from regard.config.commented import commented
from regard.config.outline import Outline
from regard.config.schema import Json, describe
from regard.runs.run_file import RENAMED, RunConfig, check_shared, check_training

FILE = "schema.json"
EDITOR = "# yaml-language-server: $schema=regard.schema.json"
"""The first line of a run file whose keys an editor completes and checks by the output of `regard schema`."""
TITLE = "A run file of regard"


def described() -> Json:
    """The schema of run files from the dataclasses of all tasks and models, which it imports."""
    return {"title": TITLE} | describe(RunConfig)


@cache
def stored() -> Json:
    """The schema of the built-in tasks and models."""
    return json.loads((files("regard.runs") / FILE).read_text(encoding="utf-8"))


def schema() -> Json:
    """The schema of the tasks and models that are installed: the stored one unless another package adds some."""
    return described() if extended() else stored()


def extended() -> bool:
    """Whether another package adds tasks, models or other parts."""
    return any(group.startswith("regard.") for group in entry_points().groups)


def check(path: Path, overrides: Sequence[str] = ()) -> None:
    """Raises InputError for the mistakes of a run file and its overrides that need no code of a model or task to be
    found: unknown and missing keys, values that do not fit, and settings of training that contradict each other. Where
    packages add parts, nothing is checked here."""
    if not extended():
        check_shared(path, overrides)
        yaml_file.check(path, Outline(stored()).root, overrides, RENAMED)
        check_training(path, overrides)


def commented_file(path: Path) -> str:
    """The run file at `path` with every key at its value or its default, and a comment with the meaning of each.

    Raises InputError for mistakes that `check` finds, except keys that are missing: those stand in comments to be
    filled in."""
    described = schema()
    root, problems = yaml_file.tree(path, Outline(described).root)
    yaml_file.refuse(problems)
    title = path.read_text(encoding="utf-8").partition("\n")[0]
    head = [EDITOR, *([title] if title.startswith("# ") else [])]
    return "\n".join(head) + "\n\n" + commented(described, root.plain())
