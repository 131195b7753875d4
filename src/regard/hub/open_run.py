"""Open what a name stands for: a run, or any model of the transformers library."""

from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.runs.run_file import CONFIG, load
from regard.storage.published_folder import CONFIG as PUBLISHED

MODULES = "modules.json"
"""The file of a sentence-transformers folder."""


def open_run(
    path: Path | str, *, allow_missing: bool = False, int8: bool = False
) -> Any:
    """Open the run in a folder, or a transformers model in a folder or on the hub.

    Raises:
        InputError: As `load` and `open_model`.
        RunError: The hub does not answer.
    """
    folder = Path(path)
    names = {file.name for file in folder.iterdir()} if folder.is_dir() else set()
    is_published = bool(names & {PUBLISHED, MODULES}) and CONFIG not in names
    is_hub_name = (
        len(folder.parts) == 2
        and not folder.exists()
        and not folder.is_absolute()
        and not folder.parent.exists()
    )
    if not is_published and not is_hub_name:
        return load(folder, allow_missing=allow_missing, int8=int8)
    if int8:
        raise InputError(
            f"{path}: is a transformers model, whose weights regard does not quantise; "
            "leave --int8 out"
        )
    from regard.hub.any_model import open_model

    return open_model(path, allow_missing=allow_missing)
