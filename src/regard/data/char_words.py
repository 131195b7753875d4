"""Texts as words, each with its characters and its id, for bidirectional models over characters."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from regard.data.batching import Batch, padded
from regard.errors import InputError
from regard.shapes import Int
from regard.text import Tokenizer
from regard.text.special import IGNORED, SpecialTokens
from regard.text.spelling import TEXT_BEGINS, TEXT_ENDS, spell, spell_mark

Spelling = Sequence[int]
Part = Sequence[tuple[Spelling, int]]
"""The characters and the id of each word."""


@dataclass(frozen=True, repr=False)
class SpelledBatch(Batch):
    """Parts of texts padded on the right: characters `(batch, position, character)`, ids padded with `IGNORED`, and the
    number of words of each part. `fresh` batches start from an empty state; others may continue the batch before."""

    characters: Int[Tensor, "batch position character"]
    tokens: Int[Tensor, "batch position"]
    lengths: Int[Tensor, " batch"]
    fresh: bool = True


class SpelledTexts:
    """Texts with start and end marks, cut into parts of at most `window` words plus one that also begins the next part.
    Each word is predicted once from the words before it and once from those after it.

    Raises:
        InputError: there is no text.
    """

    def __init__(
        self, tokenizer: Tokenizer, texts: Sequence[str], characters: int, window: int
    ):
        spelling = lru_cache(maxsize=None)(
            lambda word: spell(word, characters)
        )  # equal words share one
        begins, ends = (
            (spell_mark(mark, characters), index)
            for mark, index in marks(tokenizer.special)
        )
        self.characters = characters
        self.parts: list[Part] = []
        for text in texts:
            words = zip(
                map(spelling, words_of(tokenizer, text)),
                tokenizer.encode(text),
                strict=True,
            )
            whole = [begins, *words, ends]
            self.parts += [
                whole[first : first + window + 1]
                for first in range(0, len(whole) - 1, window)
            ]
        if not self.parts:
            raise InputError("there is no text; expected at least one line")

    @property
    def lengths(self) -> list[int]:
        """The number of words of each part, the marks and the shared word included."""
        return list(map(len, self.parts))

    def batch(self, examples: Sequence[int]) -> SpelledBatch:
        """A batch of the parts with these indices."""
        parts = [self.parts[example] for example in examples]
        tokens, lengths = padded(
            [[index for _, index in part] for part in parts], fill=IGNORED
        )
        spelled = stacked(
            [[spelling for spelling, _ in part] for part in parts], self.characters
        )
        return SpelledBatch(spelled, tokens, lengths)


def marks(special: SpecialTokens) -> tuple[tuple[int, int], tuple[int, int]]:
    """The characters that spell the start and the end of a text, each with its id in the vocabulary."""
    return (TEXT_BEGINS, special.start), (TEXT_ENDS, special.end)


def words_of(tokenizer: Tokenizer, text: str) -> list[str]:
    """The written words of a text, one for each id."""
    return [text[first:last].strip() for first, last in tokenizer.offsets(text)]


def stacked(
    rows: Sequence[Sequence[Spelling]], characters: int
) -> Int[Tensor, "batch position character"]:
    """Rows of words, each of `characters` characters, as one tensor padded with zeros."""
    longest = max(map(len, rows))
    whole = [[*row, *[[0] * characters] * (longest - len(row))] for row in rows]
    return torch.tensor(whole, dtype=torch.int64).reshape(
        len(rows), longest, characters
    )


def spell_vocabulary(
    tokenizer: Tokenizer, characters: int
) -> Int[Tensor, "word character"]:
    """The characters of each word of a vocabulary, zeros for padding."""
    rows = [
        spell(tokenizer.decode([index]), characters) for index in range(tokenizer.size)
    ]
    rows[tokenizer.special.pad] = [0] * characters
    for mark, index in marks(tokenizer.special):
        rows[index] = spell_mark(mark, characters)
    return torch.tensor(rows)
