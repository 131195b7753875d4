"""Set up training: data, tokenizer, model and objective from a run file."""

from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.models.catalog import build_classifier
from regard.storage.run_folder import LABELS, RunDirectory
from regard.tasks.bidirectional_language_model.states import PRETRAINED, spell_out
from regard.tasks.classification.config import Classification
from regard.tasks.classification.forms.catalog import form_of
from regard.tasks.classification.training import ClassificationObjective, numbers
from regard.tasks.setup import Setup, digest
from regard.tasks.tokenizer_file import TOKENIZER, kept_or_trained
from regard.training.state import count_parameters


def setup(config: Classification, folder: RunDirectory, processes: int) -> Setup:
    """Read the texts and build tokenizer, model and objective; a tokenizer in the folder is reused.

    Raises:
        InputError: the texts or the model are invalid.
    """
    splits = config.data.load()
    labels = ordered(sorted({each.label for each in splits.train}), config.training.start)
    if len(labels) < 2:
        raise InputError(f"{config.data.train}: every label is {labels[0]!r}; expected two classes or more")
    tokenizer = kept_or_trained(folder, config.cutting, [text for each in splits.train for text in each.texts])
    model = build_classifier(config.classifier, tokenizer.size, len(labels))
    spell_out(model, tokenizer)
    form = form_of(config.classifier, tokenizer, truncate=config.truncate)
    train, valid, _ = (
        list(zip(map(form.encoded, some), numbers(labels, some), strict=True))
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


def ordered(labels: list[str], start: str | None) -> list[str]:
    """The labels; where the starting run has the same set, in its order. Raises InputError for a folder that is no
    run."""
    started = None if start is None else RunDirectory.open(Path(start))
    known: Any = started.read_json(LABELS) if started is not None and started.has(LABELS) else []
    return known if sorted(known) == labels else labels
