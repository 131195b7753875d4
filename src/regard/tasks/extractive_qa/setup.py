"""Set up training: data, tokenizer, model and objective from a run file."""

from regard.models.bert import BertSpans
from regard.storage.run_folder import RunDirectory
from regard.tasks.extractive_qa.config import ExtractiveQA
from regard.tasks.extractive_qa.training import ExtractiveQAObjective, windowed
from regard.tasks.setup import Setup, digest
from regard.tasks.tokenizer_file import TOKENIZER, kept_or_trained
from regard.training.state import count_parameters


def setup(config: ExtractiveQA, folder: RunDirectory, processes: int) -> Setup:
    """Read the questions and build tokenizer, model and objective; a tokenizer in the folder is reused.

    Raises:
        InputError: the questions or the model are invalid.
    """
    splits = config.data.load()
    texts = dict.fromkeys(text for each in splits.train for text in (each.context, each.question))
    tokenizer = kept_or_trained(folder, config.tokenizer_settings, list(texts))
    model = BertSpans(tokenizer.size, config.encoder)
    train, valid = windowed(splits.train, tokenizer, config), windowed(splits.valid, tokenizer, config)
    cut = [window for some in train.windows for window in some]
    return Setup(
        model,
        ExtractiveQAObjective(cut, valid, config.training),
        digest(f"{each.question}\0{each.context}\0{each.answers}\n" for each in (*splits.train, *splits.valid)),
        f"{len(splits.train):,} questions to train on, in {len(cut):,} windows, {len(splits.valid):,} to validate, "
        f"{len(splits.test):,} to test; a vocabulary of {tokenizer.size:,}; {count_parameters(model):,} parameters",
        {TOKENIZER: tokenizer},
        splits.test,
        fresh=("output.",),
    )
