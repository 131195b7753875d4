"""Guided attention: word links as target weights between pieces."""

from collections.abc import Sequence
from itertools import product

import torch
from torch import Tensor

from regard.data.pair import Pair
from regard.data.tokenizer_pair import Tokenizers
from regard.errors import InputError
from regard.shapes import Float
from regard.text import Tokenizer
from regard.text.words import word_indices

PieceLinks = list[tuple[int, int]]
"""A target piece and a source piece, counted from 0."""


def piece_links(pairs: Sequence[Pair], tokenizers: Tokenizers) -> list[PieceLinks]:
    """For each pair the links between pieces: every piece of a target word to every piece of each linked source word.

    Raises:
        InputError: no pair has links, or the segmentation changes every epoch.
    """
    if all(pair.links is None for pair in pairs):
        raise InputError(
            "attention_losses.guided needs word links; name their file in data.links"
        )
    if max(tokenizers.source.settings.dropout, tokenizers.target.settings.dropout) > 0:
        raise InputError(
            "attention_losses.guided needs pieces that stay; set the tokenizers' dropout to 0"
        )
    found = []
    for pair in pairs:
        sources, targets = (
            _pieces(tokenizers.source, pair.source),
            _pieces(tokenizers.target, pair.target),
        )
        links = [
            product(targets[target], sources[source])
            for source, target in sorted(pair.links or ())
        ]
        found.append([link for pieces in links for link in pieces])
    return found


def link_rows(
    links: Sequence[PieceLinks], targets: int, sources: int
) -> Float[Tensor, "pair target source"]:
    """Each target piece's links as a row that sums to 1, or to 0 without links."""
    rows = torch.zeros(len(links), targets, sources)
    for row, each in zip(rows, links, strict=True):
        for target, source in each:
            row[target, source] = 1.0
    return rows / rows.sum(-1, keepdim=True).clamp(min=1.0)


def _pieces(tokenizer: Tokenizer, text: str) -> list[list[int]]:
    """The pieces of each word."""
    words: list[list[int]] = [[] for _ in text.split()]
    for piece, word in enumerate(word_indices(text, tokenizer.offsets(text))):
        words[word].append(piece)
    return words
