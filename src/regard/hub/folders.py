"""Folders of published models become runs, and runs such folders."""

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from regard.errors import InputError
from regard.hub import download as hub
from regard.hub.formats import families
from regard.hub.formats.folder import WEIGHTS as PUBLISHED_WEIGHTS
from regard.hub.formats.folder import Folder
from regard.hub.formats.pretrained_model import Opened, OpenedImages
from regard.hub.image_runs import checked_images
from regard.hub.parity import checked
from regard.hub.text_runs import built, context, described, labels_of, of_pairs, reopened, tokenizers
from regard.hub.tokenizer_parity import check_tokens
from regard.runs import run_file
from regard.runs.load import CONFIG, load
from regard.storage import tensors
from regard.storage.atomic import explained, new_folder
from regard.storage.run_folder import WEIGHTS, RunDirectory
from regard.tasks.classification.run import LABELS

ORIGIN = "origin.json"


def import_run(source: str, out: Path, revision: str | None = None, *, paired: bool = False) -> None:
    """Make the published model in a folder, or on the hub at `revision`, a run in the folder `out`. Whether one tells
    classes of one text or of two, `paired`, its files do not say.

    Raises:
        InputError: it is not there, not whole, of no family that is known, or not what its configuration says; it is
            `paired` and does not tell classes of two texts; or `out` is in use.
        RunError: the hub does not answer.
    """
    if Path(source).exists():
        folder, origin = Folder(Path(source)), {"folder": str(source)}
    else:
        folder, commit = hub.fetch(source, revision)
        origin = {"model": source, "revision": commit}
    opened = families.read(folder)
    write_run(of_pairs(opened, source) if paired else opened, origin, out)


def write_run(opened: Opened | OpenedImages, origin: Mapping[str, str], out: Path) -> None:
    """Write an opened model as a run in the folder `out`. Raises InputError for one whose numbers no run file may have,
    or whose tensors do not fit it."""
    config, model = _readable(run_file.dump(described(opened))), built(opened)
    with RunDirectory.create(out) as run:
        run.write_text(CONFIG, config)
        run.write_json(ORIGIN, dict(origin))
        labels = labels_of(opened)
        if labels:
            run.write_json(LABELS, list(labels))
        if isinstance(opened, Opened):
            for name, tokenizer in tokenizers(opened).items():
                with run.writing(name) as path:
                    tokenizer.save(path)
        run.save_tensors(WEIGHTS, model.state_dict())


def _readable(text: str) -> str:
    """A run file's text that can be read again. Raises InputError for another."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / CONFIG
        path.write_text(text, encoding="utf-8")
        try:
            run_file.read(path)
        except InputError as error:
            raise InputError(str(error).replace(str(path), "the run file that it would have")) from error
    return text


def export_run(path: Path, out: Path) -> list[str]:
    """Write a run's model to the folder `out` as Hugging Face's libraries read it, and check what was written.

    Returns: what it was checked against.

    Raises:
        InputError: the run's model is of no family that is published, or `out` exists.
        RunError: what was written does not compute the same; it is removed.
    """
    run = load(path, "cpu")
    opened = reopened(run, path)
    files = families.write(opened)
    with new_folder(out):
        for name, document in files.documents.items():
            write(out / name, document)
        with explained(out):
            tensors.write(out / PUBLISHED_WEIGHTS, files.tensors, {"format": "pt"})
        if isinstance(opened, OpenedImages):
            return checked_images(run.model, out)
        check_tokens(opened.tokenizer, out)
        return checked(run.model, context(opened.config), out, files, opened.tokenizer)


def write(path: Path, value: Mapping[str, Any] | bytes) -> None:
    """One JSON object, or a file as it is."""
    plain = value if isinstance(value, bytes) else (json.dumps(value, ensure_ascii=False, indent=1) + "\n").encode()
    with explained(path):
        path.write_bytes(plain)
