"""The files that keep the tokenizers of a run: one, or one for each side."""

import logging
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from regard.data.cache import CachedSet, cache_value
from regard.errors import InputError
from regard.storage.run_folder import RunDirectory
from regard.text import Tokenizer, TokenizerSettings

TOKENIZER = "tokenizer.json"
SOURCE, TARGET = "source.tokenizer.json", "target.tokenizer.json"
SAMPLE = 1_000_000
"""Largest number of examples on disk that a tokenizer is trained on."""
log = logging.getLogger("regard")


def load_or_train(
    run: RunDirectory,
    settings: TokenizerSettings,
    examples: Any,
    read: Callable[[Any], Iterable[str]] = lambda texts: texts,
) -> Tokenizer:
    """Return the run's tokenizer if it has one, or else train one.

    Args:
        run: The folder of the run.
        settings: The settings of a tokenizer.
        examples: The examples to train on, or their texts.
        read: Returns the texts of some examples.

    Raises:
        InputError: The tokenizer is damaged, or all texts are blank.
    """
    if run.has(TOKENIZER):
        return Tokenizer.load(run.file(TOKENIZER))
    return train_on_examples(examples, settings, "texts", read)


def train_on_examples(
    examples: Any,
    settings: TokenizerSettings,
    name: str,
    read: Callable[[Any], Iterable[str]],
) -> Tokenizer:
    """Train a tokenizer on the texts of examples; for a set on disk once.

    Args:
        examples: The examples. Of a large set on disk `SAMPLE` evenly spaced ones.
        settings: The settings of the tokenizer.
        name: What to call the texts in the cache.
        read: Returns the texts of some examples.

    Raises:
        InputError: All texts are blank.
    """
    if not isinstance(examples, CachedSet):
        return Tokenizer.train(settings, read(examples))
    key = f"{name} {settings}"
    sample = examples
    count = len(examples)
    if count > SAMPLE:
        key += f" {SAMPLE}"
        rows = np.linspace(0, count - 1, SAMPLE).astype(np.int64)
        sample = examples.select(rows, "sample")

    def train() -> str:
        if count > SAMPLE:
            sizes = f"{SAMPLE:,}", f"{count:,}"
            log.info("tokenizer: trained on %s of %s examples, evenly spaced", *sizes)
        return Tokenizer.train(settings, read(sample)).content

    content = cache_value(examples, key, train)
    return Tokenizer.of_content(content, str(examples.folder))


def check_mask(tokenizer: Tokenizer) -> None:
    """Raise InputError for a vocabulary without an entry for blanks."""
    if tokenizer.special.mask is None:
        raise InputError(
            f"tokenizer.kind is {tokenizer.settings.kind}, whose vocabulary has no entry "
            "for blanks; use wordpiece or wordpiece-uncased"
        )
