"""The families of published models that are read and written."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from regard.errors import InputError
from regard.hub.formats import bert, elmo, gpt2, marian, vit
from regard.hub.formats.folder import CONFIG, Folder
from regard.hub.formats.pretrained_model import Files, Opened, OpenedImages
from regard.models.bert import BertConfig
from regard.models.gpt2 import GPT2Config


@dataclass(frozen=True)
class Family:
    """How models of one `model_type` are read and written."""

    read: Callable[[Folder], Any]
    write: Callable[[Any], Any]


def _bert(kind: bert.Kind) -> Family:
    return Family(partial(bert.read, kind=kind), partial(bert.write, kind=kind))


FAMILIES: Mapping[str, Family] = {
    "gpt2": Family(gpt2.read, gpt2.write),
    "bert": _bert(bert.BERT),
    "roberta": _bert(bert.ROBERTA),
    "distilbert": _bert(bert.DISTILBERT),
    "vit": Family(partial(vit.read, kind=vit.VIT), vit.write),
    "deit": Family(partial(vit.read, kind=vit.DEIT), vit.write),
    "marian": Family(marian.read, marian.write),
}


def name(opened: Opened | OpenedImages) -> str:
    """The `model_type` that a model is written as."""
    if isinstance(opened, OpenedImages):
        return "deit" if opened.config.distilled else "vit"
    config = opened.config
    if not isinstance(config, BertConfig):
        return "gpt2" if isinstance(config, GPT2Config) else "marian"
    if not opened.tokenizer.settings.kind.startswith("wordpiece"):
        return "roberta"
    return "bert" if config.segments else "distilbert"


def write(opened: Opened | OpenedImages) -> Files:
    """What is published of a model. Raises InputError for one that its family does not have."""
    return FAMILIES[name(opened)].write(opened)


def read(folder: Folder) -> Any:
    """The model in a folder, `Opened`, or `OpenedImages` where it is for images: one of these families', or ELMo, whose
    config.json, if there is one, says nothing of it. Raises InputError for whatever is neither."""
    bare = elmo.present(folder)
    kind: Any = None if bare and not folder.has(CONFIG) else folder.json(CONFIG).get("model_type")
    known = isinstance(kind, str) and kind in FAMILIES
    if not known and bare:
        return elmo.read(folder)
    if not known:
        raise InputError(f"{folder.path}: is a model of type {kind!r}; regard reads {', '.join(FAMILIES)}")
    return FAMILIES[kind].read(folder)
