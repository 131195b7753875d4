"""From a run file to what training needs."""

from regard.catalog import build_language_model
from regard.errors import InputError
from regard.tasks.job import Job, digest
from regard.tasks.language_model.run import TOKENIZER
from regard.tasks.language_model.run_file import LanguageModelling
from regard.tasks.language_model.task import LanguageTask, make_windows, running
from regard.text import Tokenizer
from regard.training.run_directory import RunDirectory


def prepare(config: LanguageModelling, run: RunDirectory, processes: int) -> Job:
    """Reads the text and builds the rest; the tokenizer is the run's where it has one.

    Raises:
        InputError: text, model and search are not as they must be.
    """
    splits = config.data.load()
    kept = Tokenizer.load(run.file(TOKENIZER)) if run.has(TOKENIZER) else None
    tokenizer = kept or Tokenizer.train(config.tokenizer, splits.train)
    if config.search.beam > tokenizer.size:
        raise InputError(
            f"search.beam is {config.search.beam}, more than the {tokenizer.size} entries of the vocabulary; lower it"
        )
    model = build_language_model(config.model, tokenizer.size)
    tokens = running(tokenizer, splits.train)
    windows = make_windows(tokens, model, config.training, config.window, processes)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return Job(
        model,
        LanguageTask(windows, splits.valid, tokenizer, config.training, model),
        digest(f"{text}\n" for text in (*splits.train, *splits.valid)),
        f"{len(tokens):,} tokens to train on; a vocabulary of {tokenizer.size:,}; {parameters:,} parameters",
        {TOKENIZER: tokenizer},
        splits.test,
    )
