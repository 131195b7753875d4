"""Set up training: data, tokenizer, model and objective from a run file."""

from dataclasses import replace
from typing import Any

from torch import nn

from regard.data.char_words import spell_vocabulary
from regard.data.splits import Splits
from regard.data.stored import Mapped
from regard.models.catalog import build_classifier
from regard.models.elmo_embedding import ElmoEmbedding
from regard.storage.run_folder import RunDirectory
from regard.tasks.class_prediction import (
    class_weights,
    constant_accuracy,
    label_counts,
    training_labels,
)
from regard.tasks.classification.config import Classification, TextConfig
from regard.tasks.classification.data import Labelled
from regard.tasks.classification.encoded import TrainingTexts, encoded_texts
from regard.tasks.classification.forms.catalog import form_of
from regard.tasks.classification.outputs import ClassOutputs, Outputs
from regard.tasks.classification.summary import text_summary, unit_of
from regard.tasks.classification.training import TextObjective
from regard.tasks.label_checks import check_distinct, check_numbers
from regard.tasks.setup import Setup, digest_of_sets
from regard.tasks.tokenizer_file import TOKENIZER, kept_or_trained
from regard.tasks.word_vectors import fill_vectors, with_vector_texts
from regard.text import Tokenizer
from regard.training.state import count_parameters

PRETRAINED = {"embedding.elmo": ""}
"""The part of a model that is pretrained, with the prefix of its parameters in the run of its states."""


def setup(config: Classification, folder: RunDirectory, processes: int) -> Setup:
    """Read the texts and build tokenizer, model and objective; a tokenizer in the folder is reused.

    Raises:
        InputError: the texts or the model are invalid.
    """
    splits = config.data.load()
    counts = label_counts(splits.train)
    check_numbers(list(counts), config.data.train)
    check_distinct(counts, config.data.train)
    labels = training_labels(counts, config.data.train, config.training.start)
    weights = class_weights(config.class_weights, labels, counts)
    found = text_setup(config, folder, splits, ClassOutputs(tuple(labels), weights))
    return replace(found, simplest=constant_accuracy(label_counts(splits.valid)))


def text_setup(
    config: TextConfig,
    folder: RunDirectory,
    splits: Splits[Labelled[Any]],
    outputs: Outputs[Any, Any],
) -> Setup:
    """Build tokenizer, model and objective for texts whose labels are these outputs. Raises InputError as `setup`."""
    texts = TrainingTexts(splits.train)
    more = (
        ()
        if config.vectors is None
        else with_vector_texts(config.vectors, list(texts), folder)
    )
    tokenizer = kept_or_trained(folder, config.tokenizer_settings, more or texts)
    model = build_classifier(config.classifier, tokenizer.size, outputs.count)
    fill_vectors(model, config.vectors, tokenizer, more, folder)
    spell_out(model, tokenizer)
    form = form_of(config.classifier, tokenizer, truncate=config.truncate)
    train, valid, _ = (
        encoded_texts(some, form, outputs)
        for some in (splits.train, splits.valid, splits.test)
    )
    return Setup(
        model,
        TextObjective(
            train,
            valid,
            form,
            outputs,
            config.training,
            places=Mapped(splits.train, place_of),
        ),
        texts_digest(splits),
        f"{len(train):,} {unit_of(splits.train[0])} to train on, {len(valid):,} to validate, {len(splits.test):,} to "
        f"test; {outputs.summary}; a vocabulary of {tokenizer.size:,}; {count_parameters(model):,} parameters",
        {TOKENIZER: tokenizer},
        splits.test,
        files=outputs.files,
        fresh=("pooler.", "output."),
        data=text_summary(config, splits, form, outputs),
        pretrained={} if config.states is None else PRETRAINED,
    )


def place_of(example: Labelled[Any]) -> str:
    """The file and line of an example."""
    return example.place


def texts_digest(splits: Splits[Labelled[Any]]) -> str:
    """The digest of the training and the validation texts."""
    return digest_of_sets(splits, _written)


def _written(each: Labelled[Any]) -> str:
    return "\0".join((*each.texts, *each.sentences, str(each.label))) + "\n"


def spell_out(model: nn.Module, tokenizer: Tokenizer) -> None:
    """Set the spellings of each ELMo embedding of the model to those of the tokenizer's vocabulary."""
    for each in model.modules():
        if isinstance(each, ElmoEmbedding):
            each.spellings.copy_(spell_vocabulary(tokenizer, each.elmo.characters))
