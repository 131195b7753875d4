"""What an opened model is as a run, and a run as an opened model."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from regard.data.sources import Parallel
from regard.data.texts import RunningText
from regard.errors import InputError
from regard.hub.formats import bert_heads, families
from regard.hub.formats.pretrained_model import Classes, Opened, OpenedImages, Spans
from regard.hub.image_runs import built_for_images, described_for_images
from regard.models.bert import Bert, BertClassifier, BertConfig, BertSpans
from regard.models.catalog import build, build_language_model
from regard.models.elmo import Elmo, ElmoConfig
from regard.models.gpt2 import GPT2Config
from regard.models.transformer import TransformerConfig
from regard.runs import run_file
from regard.storage.tensors import load_into
from regard.tasks.bidirectional_language_model.config import BidirectionalLanguageModelling
from regard.tasks.classification.config import Classification
from regard.tasks.classification.data import LabelledTables
from regard.tasks.classification.run import ClassificationRun
from regard.tasks.extractive_qa.config import ExtractiveQA
from regard.tasks.extractive_qa.data import Questions
from regard.tasks.extractive_qa.run import ExtractiveQARun
from regard.tasks.image_classification.run import ImageClassificationRun
from regard.tasks.language_model.config import LanguageModelling
from regard.tasks.masked_language_model.config import MaskedLanguageModelling
from regard.tasks.masked_language_model.data import Documents
from regard.tasks.masked_language_model.run import check_tokenizer
from regard.tasks.seq2seq.config import Seq2Seq, TokenizerPair
from regard.tasks.seq2seq.run import SOURCE, TARGET, Seq2SeqRun
from regard.tasks.tokenizer_file import TOKENIZER
from regard.text import Tokenizer
from regard.training.settings import Training

RATE = 5e-5
"""The learning rate at which an imported model is trained on, unless its run file is told another."""


def context(config: Any) -> int:
    """How many tokens a model reads in a row."""
    return config.max_length if isinstance(config, TransformerConfig) else config.context


def described(opened: Opened | OpenedImages) -> run_file.RunConfig:
    """The run file of an imported model: its data are still to be named."""
    if isinstance(opened, OpenedImages):
        return described_for_images(opened, RATE)
    config, tokenizer = opened.config, opened.tokenizer.settings
    if isinstance(config, ElmoConfig):
        return BidirectionalLanguageModelling(data=RunningText(), tokenizer=tokenizer, model=config)
    training = Training(batch_tokens=max(Training.batch_tokens, context(config)), learning_rate=RATE)
    match config:
        case TransformerConfig():
            assert opened.target is not None
            assert opened.search is not None
            return Seq2Seq(
                data=Parallel(),
                tokenizers=TokenizerPair(tokenizer, opened.target.settings),
                model=config,
                metrics=("bleu", "chrf"),
                training=training,
                search=opened.search,
            )
        case BertConfig():
            return described_bert(opened, config, training)
        case GPT2Config():
            return LanguageModelling(
                data=RunningText(), tokenizer=tokenizer, model=config, window=config.context, training=training
            )


def of_pairs(opened: Opened | OpenedImages, source: str) -> Opened:
    """As one that tells classes of two texts. Raises InputError for one that does not."""
    if not isinstance(opened, Opened) or not isinstance(opened.head, Classes):
        raise InputError(f"{source}: does not tell classes of texts, so none come in pairs; import it without --pairs")
    if families.name(opened) == "roberta":
        bert_heads.ROBERTA.classes.check(source, paired=True)
    return replace(opened, head=replace(opened.head, paired=True))


def described_bert(opened: Opened, config: BertConfig, training: Training) -> run_file.RunConfig:
    """The run file of an imported BERT, whose task is that of its head."""
    tokenizer = opened.tokenizer.settings
    match opened.head:
        case Classes(_, paired):
            data = LabelledTables(second="second" if paired else None)
            return Classification(data=data, tokenizer=tokenizer, model=config, training=training)
        case Spans():
            return ExtractiveQA(data=Questions(), tokenizer=tokenizer, model=config, training=training)
        case None:
            return MaskedLanguageModelling(data=Documents(), tokenizer=tokenizer, model=config, training=training)


def built(opened: Opened | OpenedImages) -> nn.Module:
    """The model with its weights. Raises InputError that lists what does not fit."""
    if isinstance(opened, OpenedImages):
        return built_for_images(opened)
    config, size = opened.config, opened.tokenizer.size
    match config:
        case TransformerConfig():
            target = opened.target or opened.tokenizer
            model = build(config, size, target.size, (opened.tokenizer.special, target.special))
        case BertConfig():
            model = built_bert(opened, config)
        case GPT2Config():
            model = build_language_model(config, size, opened.tokenizer.special)
        case ElmoConfig():
            model = Elmo(size, config)
    load_into(model, opened.tensors)
    return model.eval()


def built_bert(opened: Opened, config: BertConfig) -> nn.Module:
    """The model of a BERT with its head, if it has one, and fresh weights."""
    size = opened.tokenizer.size
    match opened.head:
        case Classes(labels):
            return BertClassifier(size, len(labels), config)
        case Spans():
            return BertSpans(size, config)
        case None:
            return Bert(size, config)


def tokenizers(opened: Opened) -> Mapping[str, Tokenizer]:
    """By the names of the files that keep them."""
    if opened.target is None:
        return {TOKENIZER: opened.tokenizer}
    return {SOURCE: opened.tokenizer, TARGET: opened.target}


def labels_of(opened: Opened | OpenedImages) -> tuple[str, ...]:
    """The classes that a model tells, if it tells any."""
    if isinstance(opened, OpenedImages):
        return tuple(opened.labels)
    return opened.head.labels if isinstance(opened.head, Classes) else ()


def reopened(run: Any, path: Path) -> Opened | OpenedImages:
    """The model of a run. Raises InputError for one of no family that is published."""
    config = run.config.model
    if isinstance(run, ImageClassificationRun):
        return OpenedImages(run.config.model, run.model.state_dict(), run.labels, run.config.images)
    if isinstance(config, TransformerConfig) and isinstance(run, Seq2SeqRun):
        both = run.tokenizers
        return Opened(config, run.model.state_dict(), both.source, both.target, run.config.search)
    if isinstance(config, GPT2Config):
        return Opened(config, run.model.state_dict(), run.tokenizer)
    if isinstance(config, BertConfig):
        return reopened_bert(run, config)
    raise InputError(f"{path}: is a model named {config.name}; regard exports gpt2, bert, transformer and vit")


def reopened_bert(run: Any, config: BertConfig) -> Opened:
    """The BERT of a run, with the head of its task. Raises InputError for a tokenizer that is never published so."""
    check_tokenizer(run.tokenizer)
    match run:
        case ClassificationRun():
            head = Classes(run.labels, run.paired)
        case ExtractiveQARun():
            head = Spans()
        case _:
            return Opened(config, run.model.state_dict(), run.tokenizer)
    encoder = replace(config, predictions=False, pooler=isinstance(head, Classes), next_sentence=False)
    return Opened(encoder, run.model.state_dict(), run.tokenizer, head=head)
