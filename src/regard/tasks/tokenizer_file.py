"""The tokenizer of a run whose model reads and writes one vocabulary."""

from collections.abc import Iterable

from regard.storage.run_folder import RunDirectory
from regard.text import Tokenizer, TokenizerSettings

TOKENIZER = "tokenizer.json"


def kept_or_trained(run: RunDirectory, settings: TokenizerSettings, texts: Iterable[str]) -> Tokenizer:
    """The run's tokenizer if it has one, else one trained on texts. Raises InputError for a damaged tokenizer, and for
    texts of blanks only."""
    return Tokenizer.load(run.file(TOKENIZER)) if run.has(TOKENIZER) else Tokenizer.train(settings, texts)
