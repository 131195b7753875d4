"""Open what a name stands for: a run, or any model of the transformers library."""

import atexit
import logging
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from regard.errors import InputError
from regard.models.published import complete_name
from regard.runs import run_file
from regard.runs.run_file import CONFIG
from regard.storage.published_folder import CONFIG as PUBLISHED
from regard.tasks.attribution import Attribution
from regard.tasks.run import Run

MODULES = "modules.json"
"""The file of a sentence-transformers folder."""
log = logging.getLogger("regard")


def is_published(path: Path | str) -> bool:
    """Check whether a name is that of a published model, in a folder or on the hub."""
    folder = Path(path)
    if folder.is_dir():
        names = {file.name for file in folder.iterdir()}
        return bool(names & {PUBLISHED, MODULES}) and CONFIG not in names
    is_full = len(folder.parts) == 2 and not folder.is_absolute()
    is_hub_name = is_full and not folder.parent.exists() and folder.parts[0] != "runs"
    return not folder.exists() and (is_hub_name or str(path) != complete_name(path))


def open_run(
    path: Path | str, *, allow_missing: bool = False, int8: bool = False
) -> Any:
    """Open the run in a folder, or a transformers model in a folder or on the hub.

    A published classifier, tagger or regression is imported, so that its outputs are
    explained too.

    Raises:
        InputError: As `load` and `open_model`.
        RunError: The hub does not answer.
    """
    if not is_published(path):
        return run_file.load(path, allow_missing=allow_missing, int8=int8)
    if int8:
        raise InputError(
            f"{path}: is a transformers model, whose weights regard does not quantise; "
            "leave --int8 out"
        )
    from regard.hub.importing import SHOWN, find_task

    if not allow_missing and find_task(path) in SHOWN:
        try:
            return run_file.load(path)
        except InputError as error:
            log.info("is opened without its outputs: %s", error)
    return open_states(path, allow_missing=allow_missing)


def open_states(path: Path | str, *, allow_missing: bool = False) -> Any:
    """Open a run, or a transformers model as it is, whose states are embeddings.

    Raises:
        InputError: As `load` and `open_model`.
        RunError: The hub does not answer.
    """
    if not is_published(path):
        return run_file.load(path, allow_missing=allow_missing)
    from regard.hub.any_model import open_model

    return open_model(path, allow_missing=allow_missing)


def open_published(path: Path | str) -> Any:
    """Import a published model for this process, and return the folder of its run.

    A run stays. A model that writes texts of sounds or images is returned opened.

    Raises:
        InputError: As `import_run`.
        RunError: The hub does not answer.
    """
    if not is_published(path):
        return Path(path)
    from regard.hub.importing import WRITER, find_task, import_run

    if find_task(path) == WRITER:
        return open_states(path)
    directory = TemporaryDirectory()
    atexit.register(directory.cleanup)
    run = Path(directory.name) / "run"
    import_run(str(path), run)
    return run


def show(model: Any, *inputs: Any, **settings: Any) -> Attribution:
    """Return the attention of a model on a text, as `Run.attribute`.

    A notebook displays its page, and `write` makes it a file.

    Args:
        model: A run, the folder of one or of a transformers model, its name on the hub;
            or a transformers model.
        *inputs: The text, two texts, or the path of an image or a sound; before it the
            tokenizer, image processor or feature extractor of a transformers model.
        **settings: Fields of `AttributionOptions`.

    Raises:
        TypeError: There is another number of inputs.
        InputError: The tokenizer is of another model, the input is too long, or the
            attention of the model cannot be shown.
    """
    if isinstance(model, str | Path):
        model = open_run(model)
    is_run = isinstance(model, Run)
    texts = inputs if is_run else inputs[1:]
    if not texts:
        raise TypeError(
            "expected show(run_or_folder, text), or show(model, tokenizer, text) of a "
            "transformers model"
        )
    text = texts if texts[1:] else texts[0]
    if is_run:
        return model.show(text, **settings)
    from regard.hub.any_model import show_network

    return show_network(model, inputs[0], text, **settings)
