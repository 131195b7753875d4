"""Runs of each task with fresh weights, made in memory."""

from typing import cast

import torch

from regard.data.tokens import Tokenizers
from regard.models.bert import Bert
from regard.models.catalog import CLASSIFIERS, LANGUAGE_MODELS, MODELS
from regard.models.vit import Vit, VitConfig
from regard.runs import run_file
from regard.runs.recipes import path_of
from regard.tasks.classification.inputs import Classification
from regard.tasks.classification.run import ClassificationRun, ClassOutputs
from regard.tasks.image_classification import ImageClassification, ImageClassificationRun
from regard.tasks.language_model.run import LanguageModelling, LanguageModelRun
from regard.tasks.masked_language_model.config import MaskedLanguageModelling
from regard.tasks.masked_language_model.run import MaskedLanguageModelRun
from regard.tasks.seq2seq.run import Seq2Seq, Seq2SeqRun
from regard.text import Tokenizer, TokenizerSettings

TEXT = "the cat sat on the warm mat"
BERT = "model={name: bert, layers: 2, width: 6, heads: 3, hidden: 7, context: 31, dropout: 0.0, "
TABLE = ["data.train=a.tsv", "data.text=a", "data.label=b", "data.second=c"]


def config(recipe: str, *settings: str):
    """The run file of a recipe."""
    torch.manual_seed(5)
    return run_file.read(path_of(recipe), settings)


def writing() -> Seq2SeqRun:
    """Two layers of three heads, characters to byte pairs."""
    model = "model={name: transformer, layers: 2, width: 6, hidden: 7, heads: 3, shared: false, dropout: 0.0}"
    found = config("dates-transformer", model, "search={beam: 2, length_ratio: 0, length_extra: 7}")
    assert isinstance(found, Seq2Seq)
    target = Tokenizer.train(TokenizerSettings("bpe", size=290), [TEXT])
    tokenizers = Tokenizers(Tokenizer.train(TokenizerSettings("character"), [TEXT]), target)
    return Seq2SeqRun(found, MODELS.build(found.model, tokenizers.source.size, target.size).eval(), tokenizers)


def going_on() -> LanguageModelRun:
    """Two layers of three heads over words."""
    found = config("language-gpt2", "data.train=a", "model={name: gpt2, layers: 2, width: 6, heads: 3, context: 31}")
    assert isinstance(found, LanguageModelling)
    tokenizer = Tokenizer.train(TokenizerSettings("space"), [TEXT])
    return LanguageModelRun(found, LANGUAGE_MODELS.build(found.model, tokenizer.size).eval(), tokenizer)


def filling() -> MaskedLanguageModelRun:
    """Two layers of three heads over pieces of words."""
    found = config("bert", "data.train=a", f"{BERT} next_sentence: false}}")
    assert isinstance(found, MaskedLanguageModelling)
    tokenizer = Tokenizer.train(TokenizerSettings("wordpiece-uncased", size=31), [TEXT])
    return MaskedLanguageModelRun(found, Bert(tokenizer.size, found.model).eval(), tokenizer)


def telling() -> ClassificationRun:
    """The class of two texts, two layers of three heads over pieces of words."""
    found = config("classify", *TABLE, f"{BERT} predictions: false, next_sentence: false}}")
    assert isinstance(found, Classification)
    tokenizer = Tokenizer.train(TokenizerSettings("wordpiece-uncased", size=31), [TEXT])
    model = CLASSIFIERS.build(found.sizes, tokenizer.size, 2).eval()
    return ClassificationRun(found, model, tokenizer, ClassOutputs(("yes", "no")))


def seeing() -> ImageClassificationRun:
    """The class of images of 2 x 2 patches, two layers of three heads."""
    model = "model={name: vit, image: 4, patch: 2, channels: 1, layers: 2, width: 6, heads: 3, hidden: 7, dropout: 0.0}"
    found = config("vit", model, "data.train=a", "data.classes=[left, right, none]")
    assert isinstance(found, ImageClassification)
    return ImageClassificationRun(found, Vit(3, cast(VitConfig, found.model)).eval(), ["left", "right", "none"])
