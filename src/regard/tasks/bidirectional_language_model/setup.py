"""Set up training: data, tokenizer, model and objective from a run file."""

from regard.data.char_words import SpelledTexts
from regard.data.token_batches import batch_rows
from regard.errors import InputError
from regard.models.elmo import Elmo
from regard.storage.run_folder import RunDirectory
from regard.tasks.bidirectional_language_model.config import (
    BidirectionalLanguageModelling,
)
from regard.tasks.bidirectional_language_model.training import (
    BidirectionalObjective,
    Rows,
)
from regard.tasks.setup import Setup, digest
from regard.tasks.summary import running_text
from regard.tasks.tokenizer_file import TOKENIZER, kept_or_trained
from regard.training.state import count_parameters


def setup(
    config: BidirectionalLanguageModelling, folder: RunDirectory, processes: int
) -> Setup:
    """Read the text and build tokenizer, model and objective; a tokenizer in the folder is reused.

    Raises:
        InputError: the text or the model is invalid.
    """
    if not config.model.predictions:
        raise InputError(
            "model.predictions is false, so this model predicts no words and cannot be trained"
        )
    splits = config.data.load()
    tokenizer = kept_or_trained(folder, config.tokenizer, splits.train)
    model = Elmo(tokenizer.size, config.model)
    train, valid = (
        SpelledTexts(tokenizer, texts, config.model.characters, config.window)
        for texts in (splits.train, splits.valid)
    )
    rows = None
    if config.states == "carried":
        rows = Rows(
            len(train.parts),
            rows_of(len(train.parts), config, processes),
            config.training.seed,
            processes,
        )
    return Setup(
        model,
        BidirectionalObjective(train, valid, config.training, rows),
        digest(f"{text}\n" for text in (*splits.train, *splits.valid)),
        f"{sum(train.lengths) - len(train.parts):,} words to train on, ends of texts counted; a vocabulary of "
        f"{tokenizer.size:,}; {count_parameters(model):,} parameters",
        {TOKENIZER: tokenizer},
        splits.test,
        data=running_text(config.data, splits, tokenizer),
    )


def rows_of(parts: int, config: BidirectionalLanguageModelling, processes: int) -> int:
    """The rows of a batch, or a quarter of the parts where the text has fewer than one batch."""
    reason = f"the training text has {parts:,} parts, fewer than one batch"
    return batch_rows(
        parts, config.window + 1, config.training.batch_tokens, reason, processes
    )
