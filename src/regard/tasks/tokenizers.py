"""The files that keep the tokenizers of a run: one, or one for each side."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np

from regard.data.cache import CachedSet, cache_value
from regard.errors import InputError
from regard.storage.run_folder import RunDirectory
from regard.text import Tokenizer, TokenizerSettings

TOKENIZER = "tokenizer.json"
SOURCE, TARGET = "source.tokenizer.json", "target.tokenizer.json"
SAMPLE = 1_000_000
"""The most examples of a set on disk that a tokenizer is trained on."""
S = TypeVar("S", bound=CachedSet[Any])
log = logging.getLogger("regard")


@runtime_checkable
class TextsOf(Protocol):
    """Texts of examples, which may be on disk: a dataclass with the field `examples`."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def examples(self) -> Sequence[Any]: ...

    def __iter__(self) -> Iterator[str]: ...


def load_or_train(
    run: RunDirectory, settings: TokenizerSettings, texts: Iterable[str]
) -> Tokenizer:
    """Return the run's tokenizer if it has one, else one trained on texts.

    Raises:
        InputError: A damaged tokenizer, and for texts of blanks only.
    """
    if run.has(TOKENIZER):
        return Tokenizer.load(run.file(TOKENIZER))
    if isinstance(texts, TextsOf):
        return train_on_examples(
            texts.examples,
            settings,
            "texts",
            lambda group: replace(texts, examples=group),
        )
    return train_on_examples(texts, settings, "texts", lambda item: item)


def train_on_examples(
    examples: Any,
    settings: TokenizerSettings,
    name: str,
    texts: Callable[[Any], Iterable[str]],
) -> Tokenizer:
    """Return a tokenizer trained on the texts of examples, called `name`.

    For a set on disk it is trained once, on `SAMPLE` examples if there are more.

    Raises:
        InputError: Texts of blanks only.
    """
    if not isinstance(examples, CachedSet):
        return Tokenizer.train(settings, texts(examples))
    key = (
        f"{name} {settings}"
        if len(examples) <= SAMPLE
        else f"{name} {settings} {SAMPLE}"
    )
    content = cache_value(
        examples,
        key,
        lambda: Tokenizer.train(settings, texts(sample_examples(examples))).content,
    )
    return Tokenizer.of_content(content, str(examples.folder))


def sample_examples(examples: S) -> S:
    """Return at most `SAMPLE` examples of a set on disk, evenly spaced."""
    count = len(examples)
    if count <= SAMPLE:
        return examples
    log.info(
        "tokenizer: trained on %s of %s examples, evenly spaced",
        f"{SAMPLE:,}",
        f"{count:,}",
    )
    places = np.linspace(0, count - 1, SAMPLE).astype(np.int64)
    return examples.part(
        places if examples.rows is None else examples.rows[places], examples.name
    )


def check_mask(tokenizer: Tokenizer) -> None:
    """Raise InputError for a vocabulary without an entry for blanks."""
    if tokenizer.special.mask is None:
        raise InputError(
            f"tokenizer.kind is {tokenizer.settings.kind}, whose vocabulary has no entry for blanks; use wordpiece or "
            "wordpiece-uncased"
        )
