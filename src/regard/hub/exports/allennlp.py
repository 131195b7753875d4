"""ELMos as AllenNLP reads them."""

import json
from pathlib import Path

import torch

from regard.errors import InputError
from regard.hub.formats import elmo
from regard.hub.formats.folder import Folder
from regard.hub.formats.pretrained_model import Opened
from regard.hub.text_runs import built
from regard.hub.tolerances import SHAPES, compare
from regard.models.elmo import Elmo
from regard.runs.load import load
from regard.storage.atomic import explained, new_folder
from regard.tasks.bidirectional_language_model.run import ElmoRun
from regard.text.spelling import ALPHABET


def export_allennlp(path: Path, out: Path) -> list[str]:
    """Write a run's ELMo to the folder `out` as options.json and weights.hdf5, and check it: the states of all layers
    at three sizes, of the files read back.

    Returns: what it was checked against.

    Raises:
        InputError: the run's model is no ELMo, or `out` exists.
        RunError: what was written does not compute the same; it is removed.
        ModuleNotFoundError: h5py is not installed.
    """
    from regard.hub.formats import hdf5

    run = load(path, "cpu")
    if not isinstance(run, ElmoRun):
        raise InputError(f"{path}: is a model named {run.config.model.name}; allennlp takes elmo")
    files = elmo.write(Opened(run.config.model, run.model.state_dict(), run.tokenizer))
    with new_folder(out), explained(out):
        (out / elmo.OPTIONS).write_text(json.dumps(files.options, indent=1) + "\n", encoding="utf-8")
        hdf5.write(out / elmo.WEIGHTS, files.tensors)
        check(run.model, out)
    return ["the files as regard reads them"]


@torch.no_grad()
def check(model: Elmo, out: Path) -> None:
    """Compare a model with what was written of it. Raises RunError where they differ."""
    again = built(elmo.read(Folder(out)))
    for texts, words in SHAPES:
        spelt = 1 + torch.arange(texts * words * model.characters) % (ALPHABET - 1)
        characters, lengths = spelt.view(texts, words, model.characters), torch.full((texts,), words)
        compare(model(characters, lengths), again(characters, lengths), out)
