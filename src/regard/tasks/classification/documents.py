"""Documents as sentences, and as one sequence."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from regard.attention.record import Maps
from regard.attribution.gradients import Contribution
from regard.data.tokens import words_of
from regard.maps import DocumentWeights, TextWeights, shares
from regard.maps.alignment import Words
from regard.tasks.attribution import shade_text
from regard.tasks.base import TextBatch
from regard.tasks.classification.data import Labelled
from regard.tasks.classification.inputs import (
    Example,
    Form,
    Texts,
    collate_documents,
    to_numpy,
)
from regard.text import Tokenizer
from regard.text.words import sentence_spans

Rows = Sequence[np.ndarray]


class WholeTexts(Form):
    """All sentences of a document as one sequence."""

    attention_modules = "*.summary"

    def __init__(self, tokenizer: Tokenizer, config: Any, *, truncate: bool = False):
        super().__init__(tokenizer, config, truncate=truncate)
        if "maximum" in vars(config).values():
            self.attention_modules = None

    def sections(self, example: Labelled) -> Sequence[str]:
        """Return the sentences of an example, or else those of the sentence splitter."""
        (text,) = example.texts
        spans = sentence_spans(text)
        return example.sentences or [text[start:end] for start, end in spans]

    def attention(self, example: Labelled, maps: Maps) -> DocumentWeights:
        """Return the weights of words and sentences; those of a sentence are the sum."""
        parts = self.words(example)
        rows = self.token_weights(maps, [len(part.indices) for part in parts])
        words = []
        for row, part in zip(rows, parts, strict=True):
            indices = np.array(part.indices, np.int64)
            words.append(np.bincount(indices, row, len(part.labels)))
        sums = shares(np.array([weights.sum() for weights in words]))
        labels = tuple(part.labels for part in parts)
        return DocumentWeights(labels, sums, tuple(map(shares, words)))

    def token_weights(self, maps: Maps, lengths: Sequence[int]) -> Rows:
        """Return the weights of the tokens of each sentence; these have such lengths."""
        row = np.ones(sum(lengths))
        if self.config.words != "average":
            row = to_numpy(maps["words.summary"][0, 0])[: len(row)]
        return split_rows(row, lengths)

    def shade(self, example: Labelled, row: np.ndarray, name: str) -> TextWeights:
        """Return amounts of the tokens; sentences follow each other on one line."""
        rows = split_rows(row, [len(ids) for ids in self.tokenize(example)])
        text = shade_text(self.tokenizer, self.sections(example), rows, name)
        return replace(text, texts=(0,) * len(text.labels))

    def words(self, example: Labelled) -> list[Words]:
        """Return the words of each sentence."""
        offsets = self.tokenizer.offsets
        return [words_of(text, offsets(text)) for text in self.sections(example)]


class Documents(WholeTexts):
    """Sentences of at most `longest_sentence` tokens; a longer one becomes several."""

    def encode(self, example: Labelled) -> Texts:
        return [part for ids in self.tokenize(example) for part in self.cut(ids)]

    def collate(self, examples: Sequence[Example]) -> TextBatch:
        return collate_documents(examples)

    def token_weights(self, maps: Maps, lengths: Sequence[int]) -> Rows:
        """Return the weights of words times that of their sentence, 1 for an average."""
        words = [np.ones(length) for length in lengths]
        if self.config.words != "average":
            words = restore_order(maps["words.summary"][:, 0], lengths)
        sentences = np.ones(len(lengths))
        if self.config.sentences != "average":
            sentences = to_numpy(maps["sentences.summary"][0, 0])
        rows = zip(sentences, words, strict=False)
        return [weight * shares(row) for weight, row in rows]

    def gradient(
        self, example: Labelled, contributions: Sequence[Contribution], label: str
    ) -> TextWeights:
        lengths = [len(part) for part in self.encode(example)]
        rows = restore_order(contributions[0].amounts[0], lengths)
        return self.shade(example, np.concatenate([*rows, np.zeros(0)]), label)

    def words(self, example: Labelled) -> list[Words]:
        """Return the words of each sentence, or of each part of a long one."""
        parts = []
        for text in self.sections(example):
            spans = self.cut(self.tokenizer.offsets(text))
            parts += [words_of(text, part) for part in spans]
        return parts

    def cut(self, tokens: Sequence[Any]) -> list[list[Any]]:
        """Cut the tokens of a sentence into parts, of which an empty one has one."""
        size = self.config.longest_sentence
        firsts = range(0, max(1, len(tokens)), size)
        return [list(tokens[first : first + size]) for first in firsts]


def split_rows(row: np.ndarray, lengths: Sequence[int]) -> Rows:
    """Split values of all tokens into those of each sentence."""
    return np.split(row, np.cumsum(lengths)[:-1]) if lengths else []


def restore_order(rows: Any, lengths: Sequence[int]) -> list[np.ndarray]:
    """Return rows that are sorted by length, as a batch has them, in their order."""
    order = np.argsort(lengths, kind="stable")
    restored = [np.zeros(0)] * len(lengths)
    for index, row in zip(order, to_numpy(rows), strict=False):
        restored[index] = row[: lengths[index]]
    return restored
