"""Set up training: data, tokenizer, model and objective from a run file."""

from regard.data.splits import Splits
from regard.decoding.search import Search
from regard.errors import InputError
from regard.models.catalog import build_language_model
from regard.storage.run_folder import RunDirectory
from regard.tasks.language_model.config import LanguageModelling
from regard.tasks.language_model.tokens import token_stream
from regard.tasks.language_model.training import (
    LanguageModelObjective,
    convention,
    make_windows,
)
from regard.tasks.setup import Setup, check_beam, digest_of_sets
from regard.tasks.summary import running_text
from regard.tasks.tokenizer_file import TOKENIZER, kept_or_trained
from regard.training.state import count_parameters


def setup(config: LanguageModelling, folder: RunDirectory, processes: int) -> Setup:
    """Read the text and build tokenizer, model and objective; a tokenizer in the folder is reused.

    Raises:
        InputError: the text, the model or the search is invalid.
    """
    splits = config.data.load()
    tokenizer = kept_or_trained(folder, config.tokenizer, splits.train)
    check_search(config.search, tokenizer.size)
    model = build_language_model(config.model, tokenizer.size, tokenizer.special)
    tokens = token_stream(tokenizer, splits.train)
    windows = make_windows(tokens, model, config.training, config.window, processes)
    return Setup(
        model,
        LanguageModelObjective(
            windows, splits.valid, tokenizer, config.training, model
        ),
        texts_digest(splits),
        f"{len(tokens):,} tokens to train on; a vocabulary of {tokenizer.size:,}; "
        f"{count_parameters(model):,} parameters; {convention(model)}",
        {TOKENIZER: tokenizer},
        splits.test,
        data=running_text(config.data, splits, tokenizer),
    )


def check_search(search: Search, vocabulary: int) -> None:
    """Raises InputError for a beam that the vocabulary cannot fill, and for a penalty that compares a text with its
    source."""
    penalties = {
        "coverage_penalty": search.coverage_penalty,
        "brevity_penalty": search.brevity_penalty,
    }
    if wrong := [name for name, weight in penalties.items() if weight]:
        raise InputError(
            f"search.{wrong[0]} needs a source, which a language model has not; leave it 0"
        )
    check_beam(search.beam, vocabulary, "vocabulary")


def texts_digest(splits: Splits[str]) -> str:
    """The digest of the training and the validation texts."""
    return digest_of_sets(splits, "{}\n".format)
