"""Set up training: data, tokenizer, model and objective from a run file."""

from torch import nn

from regard.data.char_words import spell_vocabulary
from regard.models.catalog import build_classifier
from regard.models.elmo_embedding import ElmoEmbedding
from regard.storage.run_folder import LABELS, RunDirectory
from regard.tasks.class_prediction import class_indices, training_labels
from regard.tasks.classification.config import Classification
from regard.tasks.classification.forms.catalog import form_of
from regard.tasks.classification.training import ClassificationObjective
from regard.tasks.setup import Setup, digest
from regard.tasks.tokenizer_file import TOKENIZER, kept_or_trained
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
    labels = training_labels(splits.train, config.data.train, config.training.start)
    tokenizer = kept_or_trained(
        folder, config.tokenizer_settings, [text for each in splits.train for text in each.texts]
    )
    model = build_classifier(config.classifier, tokenizer.size, len(labels))
    spell_out(model, tokenizer)
    form = form_of(config.classifier, tokenizer, truncate=config.truncate)
    train, valid, _ = (
        list(zip(map(form.encoded, some), class_indices(labels, some), strict=True))
        for some in (splits.train, splits.valid, splits.test)
    )
    return Setup(
        model,
        ClassificationObjective(train, valid, form, config.training, places=[each.place for each in splits.train]),
        digest("\0".join((*each.texts, *each.sentences, each.label)) + "\n" for each in (*splits.train, *splits.valid)),
        f"{len(train):,} texts to train on, {len(valid):,} to validate, {len(splits.test):,} to test; {len(labels)} "
        f"classes; a vocabulary of {tokenizer.size:,}; {count_parameters(model):,} parameters",
        {TOKENIZER: tokenizer},
        splits.test,
        files={LABELS: labels},
        fresh=("pooler.", "output."),
        pretrained={} if config.states is None else PRETRAINED,
    )


def spell_out(model: nn.Module, tokenizer: Tokenizer) -> None:
    """Set the spellings of each ELMo embedding of the model to those of the tokenizer's vocabulary."""
    for each in model.modules():
        if isinstance(each, ElmoEmbedding):
            each.spellings.copy_(spell_vocabulary(tokenizer, each.elmo.characters))
