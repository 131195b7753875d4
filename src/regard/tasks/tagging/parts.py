"""Texts as parts that a model can read, and batches of them.

A part is [start] tokens [end]; a longer text has several, which begin with a word. The first token of a word stands for
it (Devlin 2019, section 5.3)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.data.batching import Batch, padded
from regard.data.bert_inputs import Ids, bert_input
from regard.shapes import Int
from regard.tasks.tagging.data import Place
from regard.text import SpecialTokens, Tokenizer
from regard.text.special import IGNORED


@dataclass(frozen=True)
class Part:
    """The ids of a part, special tokens included, and for each word with a token its number in the text and the
    position of its first token."""

    ids: Ids
    words: tuple[int, ...]
    positions: tuple[int, ...]


@dataclass(frozen=True, repr=False)
class TagBatch(Batch):
    """Parts padded on the right, and the tag at each word's first token; `IGNORED` elsewhere."""

    tokens: Int[Tensor, "batch position"]
    lengths: Int[Tensor, " batch"]
    tags: Int[Tensor, "batch position"]
    words: int


def parts(
    text: str, words: Sequence[Place], tokenizer: Tokenizer, context: int
) -> list[Part]:
    """The parts of a text, of at most `context` tokens each. Tokens of one word are in one part, unless it alone is
    longer: then its first ones are."""
    ids, firsts = tokenizer.encode(text), first_tokens(words, tokenizer.offsets(text))
    ends = [first for _, first in (*firsts[1:], (0, len(ids)))]
    found: list[Part] = []
    start, chosen = 0, []
    for (word, first), end in zip(
        firsts, ends, strict=False
    ):  # there is an end if there is no word
        if chosen and end - start > context - 2:
            found.append(
                _part(ids[start:first], chosen, start, context, tokenizer.special)
            )
            start, chosen = first, []
        chosen.append((word, first))
    return [*found, _part(ids[start:], chosen, start, context, tokenizer.special)]


def first_tokens(
    words: Sequence[Place], offsets: Sequence[Place]
) -> list[tuple[int, int]]:
    """The number of each word that has a token of its own, and its first token. A token that belongs to two words
    counts for the first."""
    found, token = [], 0
    for number, (start, end) in enumerate(words):
        while token < len(offsets) and offsets[token][1] <= start:
            token += 1
        if token < len(offsets) and offsets[token][0] < end:
            found.append((number, token))
            token += 1
    return found


def _part(
    ids: Ids,
    chosen: Sequence[tuple[int, int]],
    start: int,
    context: int,
    special: SpecialTokens,
) -> Part:
    rows, _ = bert_input(special, ids[: context - 2])
    inside = [
        (word, first - start + 1)
        for word, first in chosen
        if first - start < context - 2
    ]
    return Part(
        rows,
        tuple(word for word, _ in inside),
        tuple(position for _, position in inside),
    )


def collate_parts(examples: Sequence[tuple[Part, Sequence[int]]]) -> TagBatch:
    """A batch of parts, each with the tags of all words of its text. Raises ValueError for none."""
    if not examples:
        raise ValueError("collate_parts() got no parts; expected at least one")
    tokens, lengths = padded([part.ids for part, _ in examples])
    tags = torch.full_like(tokens, IGNORED)
    for row, (part, of_words) in zip(tags, examples, strict=True):
        row[list(part.positions)] = torch.tensor(
            [of_words[word] for word in part.words], dtype=torch.int64
        )
    return TagBatch(tokens, lengths, tags, sum(len(part.words) for part, _ in examples))


def grouped(
    texts: Sequence[Sequence[Part]], rows: int
) -> Iterator[list[tuple[int, Part]]]:
    """All parts with the number of their text, at most `rows` at once."""
    flat = [(number, part) for number, some in enumerate(texts) for part in some]
    for first in range(0, len(flat), rows):
        yield flat[first : first + rows]
