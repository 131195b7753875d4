"""Set up training: data, tokenizer, model and objective from a run file."""

from dataclasses import replace

from regard.data.splits import Splits
from regard.errors import InputError
from regard.models.bert import Bert
from regard.storage.run_folder import RunDirectory
from regard.tasks.masked_language_model.config import MaskedLanguageModelling
from regard.tasks.masked_language_model.data import Document
from regard.tasks.masked_language_model.training import MaskedObjective, masked_texts
from regard.tasks.setup import Setup, digest
from regard.tasks.summary import DataSummary, Lengths, rows, running_text
from regard.tasks.tokenizer_file import TOKENIZER, check_mask, kept_or_trained
from regard.text import Tokenizer
from regard.training.state import count_parameters


def setup(
    config: MaskedLanguageModelling, folder: RunDirectory, processes: int
) -> Setup:
    """Read the documents and build tokenizer, model and objective; a tokenizer in the folder is reused.

    Raises:
        InputError: the documents, the tokenizer or the model are invalid.
    """
    if not config.model.predictions:
        raise InputError(
            "model.predictions is false, so this model fills no blanks and cannot be trained"
        )
    splits = config.data.load()
    sentences = [sentence for document in splits.train for sentence in document]
    tokenizer = kept_or_trained(folder, config.tokenizer, sentences)
    check_mask(tokenizer)
    model = Bert(tokenizer.size, config.model)
    train, valid = (
        masked_texts(
            documents,
            tokenizer,
            config.masking,
            config.model.context,
            paired=config.model.next_sentence,
            seed=config.training.seed,
        )
        for documents in (splits.train, splits.valid)
    )
    held = [sentence for document in splits.valid for sentence in document]
    return Setup(
        model,
        MaskedObjective(train, valid, config.training),
        digest(f"{sentence}\n" for sentence in (*sentences, *held)),
        f"{len(splits.train):,} documents to train on, in {len(train):,} texts; a vocabulary of {tokenizer.size:,}; "
        f"{count_parameters(model):,} parameters",
        {TOKENIZER: tokenizer},
        splits.test,
        data=summary(config, splits, tokenizer),
    )


def summary(
    config: MaskedLanguageModelling, splits: Splits[Document], tokenizer: Tokenizer
) -> DataSummary:
    """The documents before training: that of their sentences, and the sentences a document."""
    sets = splits.train, splits.valid, splits.test
    found = running_text(
        config.data,
        Splits(*([each for some in part for each in some] for part in sets)),
        tokenizer,
    )
    lengths = {
        "sentence": found.lengths["text"],
        "document in sentences": Lengths.of(list(map(len, splits.train))),
    }
    return replace(
        found, unit="documents", rows=rows(config.data, splits), lengths=lengths
    )
