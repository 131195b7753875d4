"""The tokenizer of a run whose model reads and writes one vocabulary."""

from collections.abc import Iterable

from regard.storage.run_folder import RunDirectory
from regard.text import Tokenizer, TokenizerSettings

TOKENIZER = "tokenizer.json"


def kept_or_trained(run: RunDirectory, settings: TokenizerSettings, texts: Iterable[str]) -> Tokenizer:
    """The run's tokenizer where it has one, else one trained on texts. Raises InputError for one that is damaged, and
    where no text holds anything but blanks."""
    return Tokenizer.load(run.file(TOKENIZER)) if run.has(TOKENIZER) else Tokenizer.train(settings, texts)
