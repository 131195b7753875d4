"""The files that keep the tokenizers of a run: one, or one for each side."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

from regard.data.stored import Stored, remembered
from regard.errors import InputError
from regard.storage.run_folder import RunDirectory
from regard.text import Tokenizer, TokenizerSettings

TOKENIZER = "tokenizer.json"
SOURCE, TARGET = "source.tokenizer.json", "target.tokenizer.json"


@runtime_checkable
class TextsOf(Protocol):
    """Texts of examples, which may be on disk."""

    @property
    def examples(self) -> Sequence[Any]: ...

    def __iter__(self) -> Iterator[str]: ...


def kept_or_trained(run: RunDirectory, settings: TokenizerSettings, texts: Iterable[str]) -> Tokenizer:
    """The run's tokenizer if it has one, else one trained on texts. Raises InputError for a damaged tokenizer, and for
    texts of blanks only."""
    if run.has(TOKENIZER):
        return Tokenizer.load(run.file(TOKENIZER))
    examples = texts.examples if isinstance(texts, TextsOf) else texts
    return trained_on(examples, settings, "texts", lambda: texts)


def trained_on(
    examples: Iterable[Any], settings: TokenizerSettings, name: str, texts: Callable[[], Iterable[str]]
) -> Tokenizer:
    """A tokenizer trained on the texts of examples, called `name`; for a set on disk it is trained once. Raises
    InputError for texts of blanks only."""
    if not isinstance(examples, Stored):
        return Tokenizer.train(settings, texts())
    content = remembered(examples, f"{name} {settings}", lambda: Tokenizer.train(settings, texts()).content)
    return Tokenizer.of_content(content, str(examples.folder))


def check_mask(tokenizer: Tokenizer) -> None:
    """Raises InputError for a vocabulary without an entry for blanks."""
    if tokenizer.special.mask is None:
        raise InputError(
            f"tokenizer.kind is {tokenizer.settings.kind}, whose vocabulary has no entry for blanks; use wordpiece or "
            "wordpiece-uncased"
        )
