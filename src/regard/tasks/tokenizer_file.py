"""The files that keep the tokenizers of a run: one, or one for each side."""

from collections.abc import Iterable

from regard.errors import InputError
from regard.storage.run_folder import RunDirectory
from regard.text import Tokenizer, TokenizerSettings

TOKENIZER = "tokenizer.json"
SOURCE, TARGET = "source.tokenizer.json", "target.tokenizer.json"


def kept_or_trained(run: RunDirectory, settings: TokenizerSettings, texts: Iterable[str]) -> Tokenizer:
    """The run's tokenizer if it has one, else one trained on texts. Raises InputError for a damaged tokenizer, and for
    texts of blanks only."""
    return Tokenizer.load(run.file(TOKENIZER)) if run.has(TOKENIZER) else Tokenizer.train(settings, texts)


def check_mask(tokenizer: Tokenizer) -> None:
    """Raises InputError for a vocabulary without an entry for blanks."""
    if tokenizer.special.mask is None:
        raise InputError(
            f"tokenizer.kind is {tokenizer.settings.kind}, whose vocabulary has no entry for blanks; use wordpiece or "
            "wordpiece-uncased"
        )
