"""Conversion between pretrained models and runs."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from torch import Tensor, nn

from regard.errors import InputError
from regard.hub.formats.bert_heads import PROBLEMS
from regard.hub.formats.pretrained_model import (
    Continues,
    Number,
    PretrainedImageModel,
    PretrainedModel,
    Spans,
    Tags,
    TextHead,
)
from regard.hub.image_runs import build_image_model, image_run_config
from regard.models.bert import Bert, BertClassifier, BertConfig, BertSpans, BertTagger
from regard.models.catalog import build, build_classifier, build_language_model
from regard.models.elmo import Elmo, ElmoConfig
from regard.models.gpt2 import GPT2Classifier, GPT2Config
from regard.models.llama import LlamaConfig
from regard.models.transformer import Transformer, TransformerConfig
from regard.models.vit import Vit
from regard.storage.run_folder import LABELS
from regard.storage.tensors import load_into
from regard.tasks.tokenizer_file import SOURCE, TARGET, TOKENIZER, check_mask
from regard.text import Tokenizer
from regard.training.settings import Training

TEMPLATES = Path(__file__).with_name("imported.yaml")
RATE = 5e-5
"""The default learning rate for further training of an imported model."""


def context(config: Any) -> int:
    """The maximum of tokens in a model's input."""
    return (
        config.max_length if isinstance(config, TransformerConfig) else config.context
    )


def run_config(pretrained: PretrainedModel | PretrainedImageModel) -> dict[str, Any]:
    """The run file of an imported model by section, without defaults and without data."""
    if isinstance(pretrained, PretrainedImageModel):
        return template(pretrained.config.name) | image_run_config(pretrained, RATE)
    config = pretrained.config
    own: dict[str, Any] = {"tokenizer": pretrained.tokenizer.settings}
    match config:
        case TransformerConfig():
            assert pretrained.target is not None
            sides = {
                "source": pretrained.tokenizer.settings,
                "target": pretrained.target.settings,
            }
            own = {"tokenizers": sides, "search": pretrained.search}
        case GPT2Config() | LlamaConfig() if pretrained.head is None:
            own |= {"window": config.context} | _continues(pretrained)
        case BertConfig() if (
            isinstance(pretrained.head, TextHead) and pretrained.head.paired
        ):
            own["data"] = {
                **template(_template_name(pretrained))["data"],
                "second": "second",
            }
    if not isinstance(config, ElmoConfig):
        own["training"] = {
            "batch_tokens": max(Training.batch_tokens, context(config)),
            "learning_rate": RATE,
        }
    return template(_template_name(pretrained)) | own | {"model": config}


def _template_name(pretrained: PretrainedModel) -> str:
    """The name of a model and its head in the templates."""
    name = pretrained.config.name
    return (
        name
        if pretrained.head is None
        else f"{name}-{type(pretrained.head).__name__.lower()}"
    )


def _continues(pretrained: PretrainedModel) -> dict[str, Any]:
    """The keys of a run file for the continuations of a language model."""
    continues = pretrained.continues or Continues()
    tokens = {} if continues.tokens is None else {"tokens": continues.tokens}
    search = {} if pretrained.search is None else {"search": pretrained.search}
    return {"before": continues.before} | tokens | search


def template(name: str) -> dict[str, Any]:
    """The sections of the run file that do not come from the imported model."""
    return yaml.safe_load(TEMPLATES.read_text(encoding="utf-8"))[name]


def as_paired(
    pretrained: PretrainedModel | PretrainedImageModel, source: str
) -> PretrainedModel:
    """Mark a classifier as one of two texts. Raises InputError for any other model."""
    if isinstance(pretrained.config, GPT2Config):
        raise InputError(
            f"{source}: is a gpt2, which reads one text; import it without --pairs"
        )
    if not isinstance(pretrained, PretrainedModel) or not isinstance(
        pretrained.head, TextHead
    ):
        raise InputError(
            f"{source}: is no text classifier, so it cannot read pairs; import it without --pairs"
        )
    return replace(pretrained, head=replace(pretrained.head, paired=True))


def build_model(pretrained: PretrainedModel | PretrainedImageModel) -> nn.Module:
    """The model with its weights. Raises InputError listing the tensors that do not fit."""
    if isinstance(pretrained, PretrainedImageModel):
        return build_image_model(pretrained)
    config, size = pretrained.config, pretrained.tokenizer.size
    match config:
        case TransformerConfig():
            target = pretrained.target or pretrained.tokenizer
            model = build(
                config,
                size,
                target.size,
                (pretrained.tokenizer.special, target.special),
            )
        case BertConfig():
            model = build_bert(pretrained, config)
        case GPT2Config() if isinstance(pretrained.head, TextHead):
            model = build_classifier(config, size, len(pretrained.head.labels) or 1)
        case GPT2Config() | LlamaConfig():
            model = build_language_model(config, size, pretrained.tokenizer.special)
        case ElmoConfig():
            model = Elmo(size, config)
    load_into(model, pretrained.tensors)
    return model.eval()


def build_bert(pretrained: PretrainedModel, config: BertConfig) -> nn.Module:
    """A BERT with its head, if it has one, and fresh weights."""
    size = pretrained.tokenizer.size
    match pretrained.head:
        case TextHead(labels):
            return BertClassifier(size, len(labels) or 1, config)
        case Tags(labels):
            return BertTagger(size, len(labels), config)
        case Spans():
            return BertSpans(size, config)
        case None:
            return Bert(size, config)


def tokenizers(pretrained: PretrainedModel) -> Mapping[str, Tokenizer]:
    """The tokenizers by the names of their files."""
    if pretrained.target is None:
        return {TOKENIZER: pretrained.tokenizer}
    return {SOURCE: pretrained.tokenizer, TARGET: pretrained.target}


def labels_of(pretrained: PretrainedModel | PretrainedImageModel) -> tuple[str, ...]:
    """The labels of a head; empty for other models."""
    if isinstance(pretrained, PretrainedImageModel):
        return tuple(pretrained.labels)
    return (
        pretrained.head.labels if isinstance(pretrained.head, TextHead | Tags) else ()
    )


def pretrained_of_run(run: Any, path: Path) -> PretrainedModel | PretrainedImageModel:
    """The model of a run. Raises InputError for a model of no published family."""
    config = run.config.model
    if isinstance(run.model, Vit):
        return PretrainedImageModel(
            run.config.model, run.model.state_dict(), run.labels, run.config.images
        )
    if isinstance(run.model, Transformer):
        both = run.tokenizers
        return PretrainedModel(
            config, run.model.state_dict(), both.source, both.target, run.config.search
        )
    if isinstance(run.model, GPT2Classifier):
        return pretrained_gpt2_of_run(run, config)
    if isinstance(config, GPT2Config | LlamaConfig):
        continues = Continues(run.config.before, run.config.tokens)
        search = run.config.search
        return PretrainedModel(
            config,
            run.model.state_dict(),
            run.tokenizer,
            search=search,
            continues=continues,
        )
    if isinstance(config, BertConfig):
        return pretrained_bert_of_run(run, config)
    raise InputError(
        f"{path}: is a model named {config.name}; regard exports gpt2, llama, bert, transformer and vit"
    )


def pretrained_gpt2_of_run(run: Any, config: GPT2Config) -> PretrainedModel:
    """The classifier of a run. Raises InputError for a number whose mean the published head, without a bias, lacks."""
    head, tensors = (
        PROBLEMS[run.outputs.problem](tuple(run.outputs.files.get(LABELS, ()))),
        run.model.state_dict(),
    )
    if isinstance(head, Number):
        if run.outputs.mean:
            raise InputError(
                f"this run: its numbers have the mean {run.outputs.mean:.4g}, and a published gpt2 has no bias to add "
                "it; train on labels with a mean of 0"
            )
        tensors = tensors | {
            "output.weight": tensors["output.weight"] * run.outputs.deviation
        }
    return PretrainedModel(config, tensors, run.tokenizer, head=head)


def pretrained_bert_of_run(run: Any, config: BertConfig) -> PretrainedModel:
    """The BERT of a run, with the head of its task. Raises InputError for a tokenizer without a published form."""
    check_mask(run.tokenizer)
    tensors = run.model.state_dict()
    match run.model:
        case BertClassifier():
            head = PROBLEMS[run.outputs.problem](
                tuple(run.outputs.files.get(LABELS, ())), run.paired
            )
        case BertSpans():
            head = Spans()
        case BertTagger():
            head = Tags(run.labels)
        case _:
            return PretrainedModel(config, tensors, run.tokenizer)
    if isinstance(head, Number):
        tensors |= scaled(tensors, run.outputs.mean, run.outputs.deviation)
    encoder = replace(
        config,
        predictions=False,
        pooler=isinstance(head, TextHead),
        next_sentence=False,
    )
    return PretrainedModel(encoder, tensors, run.tokenizer, head=head)


def scaled(
    tensors: Mapping[str, Tensor], mean: float, deviation: float
) -> dict[str, Tensor]:
    """The output layer of a number of this mean and deviation, which predicts the number itself."""
    weight, bias = tensors["output.weight"], tensors["output.bias"]
    return {"output.weight": weight * deviation, "output.bias": bias * deviation + mean}
