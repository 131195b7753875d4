"""The families of published models that regard reads and writes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from regard.errors import InputError
from regard.hub.formats import (
    bert,
    bert_variants,
    elmo,
    gpt2,
    llama,
    marian,
    vit,
    word_pieces,
)
from regard.hub.formats.folder import CONFIG, Folder
from regard.hub.formats.pretrained_model import (
    Files,
    PretrainedImageModel,
    PretrainedModel,
)
from regard.models.bert import BertConfig
from regard.models.gpt2 import GPT2Config
from regard.models.llama import LlamaConfig


@dataclass(frozen=True)
class Family:
    """Functions that read and write the models of one `model_type`."""

    read: Callable[[Folder], Any]
    write: Callable[[Any], Any]


def _bert(variant: bert_variants.BertVariant) -> Family:
    return Family(
        partial(bert.read, variant=variant), partial(bert.write, variant=variant)
    )


VARIANTS = (
    *(
        bert_variants.BERT,
        bert_variants.ROBERTA,
        bert_variants.DISTILBERT,
        bert_variants.XLM_ROBERTA,
    ),
    *(bert_variants.MPNET, bert_variants.ELECTRA),
)
LLAMAS = llama.LLAMA, llama.MISTRAL, llama.QWEN2, llama.QWEN3
FAMILIES: Mapping[str, Family] = {
    "gpt2": Family(gpt2.read, gpt2.write),
    **{each.name: _bert(each) for each in VARIANTS},
    "vit": Family(partial(vit.read, variant=vit.VIT), vit.write),
    "deit": Family(partial(vit.read, variant=vit.DEIT), vit.write),
    "marian": Family(marian.read, marian.write),
    **{
        each.type: Family(partial(llama.read, variant=each), llama.write)
        for each in LLAMAS
    },
}


OPENED = "`regard show` and `regard embed` open it as it is"
NOT_READ: Mapping[str, str] = {
    "modernbert": "its layers read near and all positions in turn, each with a rotation of its own, and have gated "
    f"networks, which the BERT of regard has not; {OPENED}",
    **dict.fromkeys(
        ("deberta", "deberta-v2"),
        f"its scores compare contents with positions, which no score here does; {OPENED}",
    ),
    "albert": f"its layers share their weights, and a BERT of regard has weights for each; {OPENED}",
    **dict.fromkeys(
        ("mamba", "mamba2", "falcon_mamba", "rwkv", "xlstm"), "it has no attention"
    ),
}
"""Types of models that are asked for often, with the reason why they are not imported."""


def name(pretrained: PretrainedModel | PretrainedImageModel) -> str:
    """Return the `model_type` under which a model is published."""
    if isinstance(pretrained, PretrainedImageModel):
        return "deit" if pretrained.config.distilled else "vit"
    config = pretrained.config
    if isinstance(config, LlamaConfig):
        return llama.variant_of(config).type
    if not isinstance(config, BertConfig):
        return "gpt2" if isinstance(config, GPT2Config) else "marian"
    if config.relative is not None:
        return "mpnet"
    if config.embedding is not None or config.discriminator or config.pooled == "gelu":
        return "electra"
    if word_pieces.names_of(pretrained.tokenizer) == word_pieces.BERT:
        return "bert" if config.segments else "distilbert"
    return (
        "xlm-roberta"
        if pretrained.tokenizer.backend["model"].get("type") == "Unigram"
        else "roberta"
    )


def write(pretrained: PretrainedModel | PretrainedImageModel) -> Files:
    """Return the published files of a model. Raises InputError for a model that its family cannot express."""
    return FAMILIES[name(pretrained)].write(pretrained)


def read(folder: Folder) -> Any:
    """Read the model in a folder: a `PretrainedModel` or a `PretrainedImageModel`. ELMo is known by its files, since
    its config.json, if any, names no type. Raises InputError for another family."""
    bare = elmo.present(folder)
    kind: Any = (
        None
        if bare and not folder.has(CONFIG)
        else folder.json(CONFIG).get("model_type")
    )
    known = isinstance(kind, str) and kind in FAMILIES
    if not known and bare:
        return elmo.read(folder)
    if isinstance(kind, str) and kind in NOT_READ:
        raise InputError(
            f"{folder.path}: is a model of type {kind!r}, which is not imported: {NOT_READ[kind]}"
        )
    if not known:
        raise InputError(
            f"{folder.path}: is a model of type {kind!r}; regard reads {', '.join(FAMILIES)}"
        )
    return FAMILIES[kind].read(folder)
