"""The setting of an experiment, and its runs."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.runs import load as runs
from regard.runs import run_file
from regard.runs import train as launch
from regard.runs.recipes import path_of
from regard.storage.run_folder import RESULT
from regard.training.devices import choose_device


@dataclass(frozen=True)
class Setting:
    """The setting of an experiment.

    folder: the folder of trained runs, so that an interrupted experiment continues.
    full: whether to use the long setting.
    text: two files, aligned by line, for experiments on the user's text."""

    folder: Path
    full: bool = False
    text: tuple[Path, Path] | None = None

    def train(self, recipe: str, name: str, overrides: Sequence[str]) -> dict[str, Any]:
        """The figures of a run of the recipe. The run is trained unless the folder has it.

        Raises:
            InputError: the folder holds a run of this name with other settings.
            RunError: training failed.
        """
        out, config = self.folder / name, run_file.read(path_of(recipe), overrides)
        if not (out / RESULT).is_file():
            return launch.train(config, out, resume=out.exists())
        if run_file.read(out / runs.CONFIG) != launch.settled(
            config, choose_device(config.training.device)
        ):
            raise InputError(
                f"{out}: holds a run with other settings; remove it, or name another folder with --out"
            )
        return json.loads((out / RESULT).read_text(encoding="utf-8"))

    def run(self, name: str) -> Any:
        """Load a trained run."""
        return runs.load(self.folder / name)
