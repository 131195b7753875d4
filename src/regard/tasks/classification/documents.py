"""Documents as sentences, and as one sequence."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from regard.attention.record import Maps
from regard.attribution.gradients import Contribution
from regard.data.batches import Ids
from regard.data.tokens import words_of
from regard.maps import DocumentWeights, TextWeights, shares
from regard.maps.alignment import Words
from regard.models.han import FlatConfig, HanConfig, PoolingName
from regard.tasks.attribution import shade_text
from regard.tasks.classification.data import Labelled
from regard.tasks.classification.inputs import (
    DocumentBatch,
    Form,
    Joined,
    Target,
    TextBatch,
    collate_documents,
    collate_texts,
)
from regard.text import Tokenizer
from regard.text.words import sentence_spans

WORDS, SENTENCES = "words.summary", "sentences.summary"
Sentences = list[Ids]
"""The tokens of each sentence."""


def sentences_of(example: Labelled) -> tuple[str, ...]:
    """Return the sentences of an example: its own, else those of the sentence splitter."""
    (text,) = example.texts
    return example.sentences or tuple(
        text[start:end] for start, end in sentence_spans(text)
    )


class Documents(Form[Sentences]):
    """Sentences of at most `longest_sentence` tokens; a longer one becomes several."""

    attention_modules = "*.summary"

    config: HanConfig

    def encode(self, example: Labelled) -> Sentences:
        full = map(self.tokenizer.encode, sentences_of(example))
        return [part for ids in full for part in cut(ids, self.config.longest_sentence)]

    def positions(self, encoded: Sentences) -> int:
        return max(1, sum(map(len, encoded)))

    def collate(self, examples: Sequence[tuple[Sentences, Target]]) -> DocumentBatch:
        return collate_documents(examples)

    def attention(
        self, example: Labelled, maps: Maps, joined: Joined
    ) -> DocumentWeights | None:
        """Return the weights of words and sentences.

        Uniform for an average, None for a maximum.
        """
        if "maximum" in (self.config.words, self.config.sentences):
            return None
        parts = self._parts(example)
        weights = read_weights(maps, SENTENCES, self.config.sentences, [len(parts)])[0]
        order = np.argsort([len(part.indices) for part in parts], kind="stable")
        result = read_weights(
            maps, WORDS, self.config.words, [len(parts[row].indices) for row in order]
        )
        words = {int(row): item for row, item in zip(order, result, strict=True)}
        return DocumentWeights(
            tuple(part.labels for part in parts),
            weights,
            tuple(sum_words(words[row], part) for row, part in enumerate(parts)),
        )

    def gradient(
        self, example: Labelled, result: Sequence[Contribution], label: str
    ) -> TextWeights:
        parts = self._parts(example)
        amounts = result[0].amounts[0].double().cpu().numpy()
        order = np.argsort([len(part.indices) for part in parts], kind="stable")
        rows = {int(row): amount for row, amount in zip(order, amounts, strict=True)}
        full = np.concatenate(
            [
                *(rows[row][: len(part.indices)] for row, part in enumerate(parts)),
                np.zeros(0),
            ]
        )
        return _of_sentences(self.tokenizer, sentences_of(example), full, label)

    def _parts(self, example: Labelled) -> list[Words]:
        """Return the words of each sentence, or of each part of a long sentence."""
        longest = self.config.longest_sentence
        return [
            words_of(text, spans)
            for text in sentences_of(example)
            for spans in cut(self.tokenizer.offsets(text), longest)
        ]


class WholeTexts(Form[Sentences]):
    """All sentences of a document as one."""

    attention_modules = WORDS

    config: FlatConfig

    def encode(self, example: Labelled) -> Sentences:
        return [self.tokenizer.encode(sentence) for sentence in sentences_of(example)]

    def positions(self, encoded: Sentences) -> int:
        return max(1, sum(map(len, encoded)))

    def collate(self, examples: Sequence[tuple[Sentences, Target]]) -> TextBatch:
        return collate_texts(
            [
                ([token for ids in sentences for token in ids], item)
                for sentences, item in examples
            ]
        )

    def attention(
        self, example: Labelled, maps: Maps, joined: Joined
    ) -> DocumentWeights | None:
        if self.config.words == "maximum":
            return None
        parts = self._parts(example)
        (full,) = read_weights(
            maps, WORDS, self.config.words, [sum(len(part.indices) for part in parts)]
        )
        return self._laid_out(parts, full)

    def gradient(
        self, example: Labelled, result: Sequence[Contribution], label: str
    ) -> TextWeights:
        amounts = result[0].amounts[0, 0].double().cpu().numpy()
        return _of_sentences(self.tokenizer, sentences_of(example), amounts, label)

    def _parts(self, example: Labelled) -> list[Words]:
        """Return the words of each sentence."""
        return [
            words_of(text, self.tokenizer.offsets(text))
            for text in sentences_of(example)
        ]

    def _laid_out(self, parts: Sequence[Words], full: np.ndarray) -> DocumentWeights:
        """Return the amounts of all tokens, grouped by sentence."""
        ends = np.cumsum([len(part.indices) for part in parts])
        return divide_shares(
            parts,
            [item for item, _ in zip(np.split(full, ends[:-1]), parts, strict=False)],
        )


def _of_sentences(
    tokenizer: Tokenizer, sentences: Sequence[str], amounts: np.ndarray, label: str
) -> TextWeights:
    """Return the amounts of the tokens of all sentences, one behind the other."""
    ends = np.cumsum([len(tokenizer.offsets(sentence)) for sentence in sentences])
    result = shade_text(
        tokenizer, sentences, np.split(amounts, ends[:-1]) if sentences else [], label
    )
    return replace(
        result, texts=(0,) * len(result.labels)
    )  # sentences follow each other on one line


def cut(tokens: Sequence, longest: int) -> list[list]:
    """Return parts of at most `longest` tokens, in order.

    An empty sentence has one empty part.
    """
    return [
        list(tokens[first : first + longest])
        for first in range(0, max(1, len(tokens)), longest)
    ]


def read_weights(
    maps: Maps, name: str, summary: PoolingName, lengths: Sequence[int]
) -> list[np.ndarray]:
    """Return the weights of each row up to its length; norms as shares."""
    if summary == "average":
        return [np.full(length, 1 / max(1, length)) for length in lengths]
    if not lengths:
        return []
    result = maps[name][:, 0].double().cpu().numpy()
    return [shares(row[:length]) for row, length in zip(result, lengths, strict=True)]


def sum_words(weights: np.ndarray, words: Words) -> np.ndarray:
    """Return the sum of the weights of each word's tokens."""
    return (
        np.bincount(words.indices, weights, len(words.labels))
        if words.labels
        else np.zeros(0)
    )


def divide_shares(
    parts: Sequence[Words], amounts: Sequence[np.ndarray]
) -> DocumentWeights:
    """Return the amounts of tokens, of any sign, as shares.

    Of a sentence in the document, of a word in its sentence.
    """
    words = [
        sum_words(np.abs(amount), part)
        for amount, part in zip(amounts, parts, strict=True)
    ]
    weights = shares(np.array([word.sum() for word in words]))
    return DocumentWeights(
        tuple(part.labels for part in parts), weights, tuple(map(shares, words))
    )
