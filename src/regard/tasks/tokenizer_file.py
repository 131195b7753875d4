"""The files that keep the tokenizers of a run: one, or one for each side."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np

from regard.data.stored import Stored, remembered
from regard.errors import InputError
from regard.storage.run_folder import RunDirectory
from regard.text import Tokenizer, TokenizerSettings

TOKENIZER = "tokenizer.json"
SOURCE, TARGET = "source.tokenizer.json", "target.tokenizer.json"
SAMPLE = 1_000_000
"""The most examples of a set on disk that a tokenizer is trained on."""
S = TypeVar("S", bound=Stored[Any])
log = logging.getLogger("regard")


@runtime_checkable
class TextsOf(Protocol):
    """Texts of examples, which may be on disk: a dataclass with the field `examples`."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def examples(self) -> Sequence[Any]: ...

    def __iter__(self) -> Iterator[str]: ...


def kept_or_trained(
    run: RunDirectory, settings: TokenizerSettings, texts: Iterable[str]
) -> Tokenizer:
    """The run's tokenizer if it has one, else one trained on texts. Raises InputError for a damaged tokenizer, and for
    texts of blanks only."""
    if run.has(TOKENIZER):
        return Tokenizer.load(run.file(TOKENIZER))
    if isinstance(texts, TextsOf):
        return trained_on(
            texts.examples,
            settings,
            "texts",
            lambda some: replace(texts, examples=some),
        )
    return trained_on(texts, settings, "texts", lambda some: some)


def trained_on(
    examples: Any,
    settings: TokenizerSettings,
    name: str,
    texts: Callable[[Any], Iterable[str]],
) -> Tokenizer:
    """A tokenizer trained on the texts of examples, called `name`; for a set on disk it is trained once, on `SAMPLE`
    examples if there are more. Raises InputError for texts of blanks only."""
    if not isinstance(examples, Stored):
        return Tokenizer.train(settings, texts(examples))
    key = (
        f"{name} {settings}"
        if len(examples) <= SAMPLE
        else f"{name} {settings} {SAMPLE}"
    )
    content = remembered(
        examples,
        key,
        lambda: Tokenizer.train(settings, texts(at_most(examples))).content,
    )
    return Tokenizer.of_content(content, str(examples.folder))


def at_most(examples: S) -> S:
    """At most `SAMPLE` examples of a set on disk, evenly spaced."""
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
    """Raises InputError for a vocabulary without an entry for blanks."""
    if tokenizer.special.mask is None:
        raise InputError(
            f"tokenizer.kind is {tokenizer.settings.kind}, whose vocabulary has no entry for blanks; use wordpiece or "
            "wordpiece-uncased"
        )
