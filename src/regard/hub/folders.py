"""Import of published models as runs, and export of runs as published models."""

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torch import nn

from regard.config import yaml_text
from regard.errors import InputError
from regard.hub import admission
from regard.hub import download as hub
from regard.hub.card import write_card
from regard.hub.formats import families
from regard.hub.formats.folder import WEIGHTS as PUBLISHED_WEIGHTS
from regard.hub.formats.folder import Folder
from regard.hub.formats.pretrained_model import (
    Number,
    PretrainedImageModel,
    PretrainedModel,
)
from regard.hub.image_runs import check_image_parity
from regard.hub.parity import check_parity
from regard.hub.text_runs import (
    as_paired,
    build_model,
    context,
    labels_of,
    pretrained_of_run,
    run_config,
    tokenizers,
)
from regard.hub.tokenizer_parity import check_tokens
from regard.runs import run_file
from regard.runs.load import CONFIG, load
from regard.storage import tensors
from regard.storage.atomic import explained, new_folder
from regard.storage.run_folder import LABELS, SCALE, WEIGHTS, RunDirectory

ORIGIN = "origin.json"


def import_run(
    source: str, out: Path, revision: str | None = None, *, paired: bool = False
) -> None:
    """Import the published model in a folder, or on the hub at `revision`, as a run in the folder `out`. `paired`: the
    classifier reads two texts, which its files do not record.

    Raises:
        InputError: the model is missing, incomplete, of an unknown family, asks for code of its own, is larger than
            the memory, or contradicts its configuration; it is `paired` and no text classifier; or `out` is in use.
        RunError: the hub does not answer.
    """
    if Path(source).exists():
        folder, origin = Folder(Path(source)), {"folder": str(source)}
    else:
        folder, commit = hub.fetch(source, revision)
        origin = {"model": source, "revision": commit}
    admission.check(folder)
    pretrained = families.read(folder)
    write_run(as_paired(pretrained, source) if paired else pretrained, origin, out)


def write_run(
    pretrained: PretrainedModel | PretrainedImageModel,
    origin: Mapping[str, str],
    out: Path,
) -> None:
    """Write a pretrained model as a run in the folder `out`.

    Raises InputError: a number is out of a run file's range, or the tensors do not fit the model.
    """
    config, model = (
        _complete(yaml_text.dump(run_config(pretrained))),
        build_model(pretrained),
    )
    with RunDirectory.create(out) as run:
        try:
            _write(run, config, model, pretrained, origin)
        except BaseException:
            run.withdraw()  # half an import would be in the way of the next one
            raise


def _write(
    run: RunDirectory,
    config: str,
    model: nn.Module,
    pretrained: PretrainedModel | PretrainedImageModel,
    origin: Mapping[str, str],
) -> None:
    run.write_text(CONFIG, config)
    run.write_json(ORIGIN, dict(origin))
    labels = labels_of(pretrained)
    if labels or isinstance(
        pretrained, PretrainedImageModel
    ):  # an encoder alone has none
        run.write_json(LABELS, list(labels))
    if isinstance(pretrained, PretrainedModel):
        if isinstance(pretrained.head, Number):
            run.write_json(SCALE, {"mean": 0.0, "deviation": 1.0})
        for name, tokenizer in tokenizers(pretrained).items():
            with run.writing(name) as path:
                tokenizer.save(path)
    run.save_tensors(WEIGHTS, model.state_dict())


def _complete(text: str) -> str:
    """A run file with all defaults. Raises InputError for an invalid one."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / CONFIG
        path.write_text(text, encoding="utf-8")
        try:
            return run_file.dump(run_file.read(path))
        except InputError as error:
            raise InputError(
                str(error).replace(str(path), "the imported run file")
            ) from error


def export_run(path: Path, out: Path) -> list[str]:
    """Export a run's model to the folder `out` for Hugging Face's libraries, and check the export.

    Returns: the runtimes that checked the export.

    Raises:
        InputError: the run's model is of no published family, or `out` exists.
        RunError: the export computes other values; it is removed.
    """
    run = load(path, "cpu")
    pretrained = pretrained_of_run(run, path)
    files = families.write(pretrained)
    with new_folder(out):
        write_card(path, out, "Hugging Face's libraries")
        for name, document in files.documents.items():
            write(out / name, document)
        with explained(out):
            tensors.write(out / PUBLISHED_WEIGHTS, files.tensors, {"format": "pt"})
        if isinstance(pretrained, PretrainedImageModel):
            return check_image_parity(run.model, out)
        check_tokens(pretrained.tokenizer, out)
        # the published layer of a number has the scale of the run's in its weights
        model = (
            build_model(pretrained)
            if isinstance(pretrained.head, Number)
            else run.model
        )
        return check_parity(
            model, context(pretrained.config), out, files, pretrained.tokenizer
        )


def write(path: Path, value: Mapping[str, Any] | bytes) -> None:
    """Write a JSON object, or bytes as they are."""
    plain = (
        value
        if isinstance(value, bytes)
        else (json.dumps(value, ensure_ascii=False, indent=1) + "\n").encode()
    )
    with explained(path):
        path.write_bytes(plain)
