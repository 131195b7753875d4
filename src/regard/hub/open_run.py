"""Open what a name stands for: a trained run, or any model of the transformers library."""

from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.hub.any_model.inputs import MODULES, load_model
from regard.runs.load import CONFIG, load
from regard.storage.published_folder import CONFIG as PUBLISHED
from regard.storage.published_folder import PublishedFolder


def open_run(
    path: Path | str, *, allow_missing: bool = False, int8: bool = False
) -> Any:
    """The trained run in a folder; or the transformers model in a folder, or on the hub by OWNER/NAME.

    Raises InputError as `load` and `load_model`, RunError where the hub does not answer.
    """
    folder = Path(path)
    if not _published(folder):
        return load(folder, allow_missing=allow_missing, int8=int8)
    if int8:
        raise InputError(
            f"{path}: is a transformers model, whose weights regard does not quantise; leave --int8 out"
        )
    return _open_published(folder, allow_missing)


def _open_published(folder: Path, allow_missing: bool) -> Any:
    from regard.hub.any_model.run import TransformersRun
    from regard.storage import hub_download as download

    found = (
        PublishedFolder(folder)
        if folder.exists()
        else download.fetch(str(folder), None)[0]
    )
    return TransformersRun(
        load_model(found.path, found.root, allow_missing=allow_missing)
    )


def _published(folder: Path) -> bool:
    """Whether a name stands for a transformers model: a folder of one, or a name on the hub. A folder beside others is
    none on the hub."""
    if folder.exists():
        return (
            any((folder / name).exists() for name in (PUBLISHED, MODULES))
            and not (folder / CONFIG).exists()
        )
    return (
        len(folder.parts) == 2
        and not folder.is_absolute()
        and not folder.parent.exists()
    )
