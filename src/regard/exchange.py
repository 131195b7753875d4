"""Models from and to the forms in which others publish them."""

import json
import shutil
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard import exchange_images, run_file
from regard.data.documents import Documents
from regard.data.texts import RunningText
from regard.errors import InputError, RunError
from regard.models.bert import Bert, BertConfig
from regard.models.elmo import Elmo, ElmoConfig
from regard.models.gpt2 import GPT2, GPT2Config
from regard.models.vit import Vit
from regard.pretrained import families, hub
from regard.pretrained.folder import CONFIG as PUBLISHED_CONFIG
from regard.pretrained.folder import WEIGHTS as PUBLISHED_WEIGHTS
from regard.pretrained.folder import Folder
from regard.pretrained.names import Order
from regard.pretrained.opened import Files, ImageFiles, Opened, OpenedImages
from regard.pretrained.preprocessor import PREPROCESSOR
from regard.pretrained.vocabulary import TOKENIZER as PUBLISHED_TOKENIZER
from regard.runs import CONFIG, load
from regard.tasks.bidirectional_language_model.run_file import BidirectionalLanguageModelling
from regard.tasks.classification.run import LABELS
from regard.tasks.image_classification.run import ImageClassificationRun
from regard.tasks.image_classification.run_file import ImageClassification
from regard.tasks.language_model.run import TOKENIZER
from regard.tasks.language_model.run_file import LanguageModelling
from regard.tasks.masked_language_model.run_file import MaskedLanguageModelling
from regard.text.special import END
from regard.training import tensors
from regard.training.atomic import explained
from regard.training.loop import WEIGHTS
from regard.training.run_directory import RunDirectory
from regard.training.settings import Training
from regard.training.tensors import load_into

ORIGIN = "origin.json"
RATE = 5e-5
"""The learning rate at which an imported model is trained on, unless its run file is told another."""
SHAPES = (1, 1), (2, 7), (3, 64)
"""Texts and tokens of each with which an export is checked."""
CLOSE = 1e-4
"""How far numbers may differ, as a share of their median size: float32 holds seven digits."""


def import_run(source: str, out: Path, revision: str | None = None) -> None:
    """Make the published model in a folder, or on the hub at `revision`, a run in the folder `out`.

    Raises:
        InputError: it is not there, not whole, of no family that is known, or not what its configuration says; or
            `out` is in use.
        RunError: the hub does not answer.
    """
    if Path(source).exists():
        folder, origin = Folder(Path(source)), {"folder": str(source)}
    else:
        folder, commit = hub.fetch(source, revision)
        origin = {"model": source, "revision": commit}
    opened = families.read(folder)
    model = built(opened)
    with RunDirectory.create(out) as run:
        run.write_text(CONFIG, run_file.dump(described(opened)))
        run.write_json(ORIGIN, origin)
        if isinstance(opened, OpenedImages):
            run.write_json(LABELS, list(opened.labels))
        else:
            with run.writing(TOKENIZER) as path:
                opened.tokenizer.save(path)
        run.save_tensors(WEIGHTS, model.state_dict())


def export_run(path: Path, out: Path) -> list[str]:
    """Write a run's model to the folder `out` as Hugging Face's libraries read it, and check what was written.

    Returns: what it was checked against.

    Raises:
        InputError: the run's model is of no family that is published, or `out` exists.
        RunError: what was written does not compute the same; it is removed.
    """
    if out.exists():
        raise InputError(f"{out}: exists; choose another --out")
    run = load(path, "cpu")
    files = published_form(run, path)
    named = (
        {PREPROCESSOR: files.preprocessor} if isinstance(files, ImageFiles) else {PUBLISHED_TOKENIZER: files.tokenizer}
    )
    with explained(out):
        out.mkdir(parents=True)
    try:
        for name, value in {PUBLISHED_CONFIG: files.config, **named}.items():
            write_json(out / name, value)
        with explained(out):
            tensors.write(out / PUBLISHED_WEIGHTS, files.tensors, {"format": "pt"})
        if isinstance(files, ImageFiles):
            return checked_images(run.model, out)
        return checked(run.model, run.config.model.context, out, files.order)
    except BaseException:
        shutil.rmtree(out)
        raise


def published_form(run: Any, path: Path) -> Files | ImageFiles:
    """What is published of a run. Raises InputError for one whose model is of no family that is."""
    config, weights = run.config.model, run.model.state_dict()
    if isinstance(run, ImageClassificationRun):
        return families.write(OpenedImages(run.config.model, weights, run.labels, run.config.images))
    if not isinstance(config, GPT2Config | BertConfig):
        raise InputError(f"{path}: is a model named {config.name}; regard exports gpt2, bert and vit")
    return families.write(Opened(config, weights, run.tokenizer))


def described(
    opened: Opened | OpenedImages,
) -> LanguageModelling | MaskedLanguageModelling | BidirectionalLanguageModelling | ImageClassification:
    """The run file of an imported model: its data are still to be named."""
    if isinstance(opened, OpenedImages):
        return exchange_images.described(opened, RATE)
    config, tokenizer = opened.config, opened.tokenizer.settings
    if isinstance(config, ElmoConfig):
        return BidirectionalLanguageModelling(data=RunningText(), tokenizer=tokenizer, model=config)
    training = Training(batch_tokens=max(Training.batch_tokens, config.context), learning_rate=RATE)
    if isinstance(config, BertConfig):
        return MaskedLanguageModelling(data=Documents(), tokenizer=tokenizer, model=config, training=training)
    return LanguageModelling(
        data=RunningText(), tokenizer=tokenizer, model=config, window=config.context, training=training
    )


def built(opened: Opened | OpenedImages) -> GPT2 | Bert | Elmo | Vit:
    """The model with its weights. Raises InputError that lists what does not fit."""
    if isinstance(opened, OpenedImages):
        return exchange_images.built(opened)
    config, size = opened.config, opened.tokenizer.size
    match config:
        case BertConfig():
            model = Bert(size, config)
        case ElmoConfig():
            model = Elmo(size, config)
        case GPT2Config():
            model = GPT2(size, config)
    load_into(model, opened.tensors)
    return model.eval()


def checked(model: nn.Module, context: int, out: Path, order: Order) -> list[str]:
    """Compare a model with what was exported of it, read back and, where transformers is installed, run by it.

    Raises:
        RunError: the two differ, with the largest difference.
    """
    named = torch.tensor([-1 if theirs is None else theirs for theirs in order])
    again, loaded = built(families.read(Folder(out))), published(out, model)
    for texts, tokens in SHAPES:
        chosen = END + torch.arange(texts * min(tokens, context)).view(texts, -1) % (len(order) - END)
        own = numbers(model, chosen)
        compare(own, numbers(again, chosen), out)
        if loaded is not None:
            with torch.no_grad():
                theirs = loaded(named[chosen])
            if "logits" in theirs:
                compare(own[..., named >= 0], theirs.logits[..., named[named >= 0]], out)
            else:
                compare(own, theirs.last_hidden_state, out)
    return against()


@torch.no_grad()
def checked_images(model: Vit, out: Path) -> list[str]:
    """The same of a model for images."""
    for own, other in exchange_images.compared(model, out):
        compare(own, other, out)
    return against()


def against() -> list[str]:
    """What an export is checked against."""
    return ["the files as regard reads them", *(["transformers"] if find_spec("transformers") else [])]


def published(folder: Path, model: nn.Module) -> Any:
    """The model as transformers runs it; None where that is not installed."""
    if find_spec("transformers") is None:
        return None
    import transformers

    if isinstance(model, GPT2):
        kind = transformers.AutoModelForCausalLM
    elif isinstance(model, Bert) and model.predictions is not None:
        kind = transformers.AutoModelForMaskedLM
    else:
        kind = transformers.AutoModel
    return kind.from_pretrained(folder, local_files_only=True).eval()


@torch.no_grad()
def numbers(model: nn.Module, ids: Tensor) -> Tensor:
    """What the model gives for whole texts: logits, or states where it has no more."""
    if isinstance(model, GPT2):
        return model(ids, model.begin(len(ids)))[0]
    assert isinstance(model, Bert)
    states = model(ids, torch.full((len(ids),), ids.shape[1]))
    return states if model.predictions is None else model.predictions(states)


def compare(expected: Tensor, found: Tensor, out: Path) -> None:
    """Raises RunError where the two differ by more than `CLOSE` of the median size."""
    difference = float((expected - found).masked_fill(expected == found, 0.0).abs().max())  # also where infinite
    if not difference <= CLOSE * max(1.0, float(expected.abs().median())):
        raise RunError(f"{out}: what was exported differs from the run by up to {difference:.3g}; it is removed")


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """One JSON object."""
    with explained(path):
        path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
