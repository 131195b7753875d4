"""Batches of texts with their targets; `inputs` are the arguments of the model."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.data.batching import InputBatch, padded
from regard.data.bert_inputs import Ids, bert_inputs
from regard.shapes import Int, Shaped
from regard.text.special import SPECIAL, SpecialTokens

Target = int | float | Sequence[float]
"""The index of a class, a number, or several numbers."""


class LabelledBatch(InputBatch):
    """A batch of texts: a frozen dataclass of tensors. `targets` are the indices of classes, numbers, or a row of
    numbers for each text."""

    targets: Shaped[Tensor, "batch *output"]


@dataclass(frozen=True, repr=False)
class MarkedBatch(LabelledBatch):
    """One text or two of each example with special tokens, padded on the right, and the segment of each token."""

    tokens: Int[Tensor, "batch position"]
    lengths: Int[Tensor, " batch"]
    segments: Int[Tensor, "batch position"]
    targets: Shaped[Tensor, "batch *output"]

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return self.tokens, self.lengths, self.segments

    @property
    def size(self) -> int:
        return int(self.lengths.sum())


@dataclass(frozen=True, repr=False)
class TextBatch(LabelledBatch):
    """One text of each example."""

    tokens: Int[Tensor, "batch position"]
    lengths: Int[Tensor, " batch"]
    targets: Shaped[Tensor, "batch *output"]

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return self.tokens, self.lengths

    @property
    def size(self) -> int:
        return int(self.lengths.sum())


@dataclass(frozen=True, repr=False)
class TwoTextBatch(LabelledBatch):
    """Two texts of each example, each padded by itself."""

    first: Int[Tensor, "batch first_position"]
    first_lengths: Int[Tensor, " batch"]
    second: Int[Tensor, "batch second_position"]
    second_lengths: Int[Tensor, " batch"]
    targets: Shaped[Tensor, "batch *output"]

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return self.first, self.first_lengths, self.second, self.second_lengths

    @property
    def size(self) -> int:
        return int(self.first_lengths.sum() + self.second_lengths.sum())


@dataclass(frozen=True, repr=False)
class DocumentBatch(LabelledBatch):
    """The sentences of all documents, a row each, the shortest first. `places` has the rows of each document's
    sentences in order, padded with row 0 past their number in `counts`."""

    tokens: Int[Tensor, "row position"]
    lengths: Int[Tensor, " row"]
    places: Int[Tensor, "batch sentence"]
    counts: Int[Tensor, " batch"]
    targets: Shaped[Tensor, "batch *output"]

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return self.tokens, self.lengths, self.places, self.counts

    @property
    def size(self) -> int:
        return int(self.lengths.sum())


def collate_marked(
    examples: Sequence[tuple[Sequence[Ids], Target]], special: SpecialTokens = SPECIAL
) -> MarkedBatch:
    """One text or two of each example, as tokens, with its target. Raises ValueError for no examples at all."""
    targets = _targets(examples)
    return MarkedBatch(*bert_inputs(special, [texts for texts, _ in examples]), targets)


def collate_texts(examples: Sequence[tuple[Ids, Target]]) -> TextBatch:
    """One text of each example. Raises ValueError for no examples at all."""
    targets = _targets(examples)
    return TextBatch(*padded([ids for ids, _ in examples]), targets)


def collate_two_texts(examples: Sequence[tuple[Sequence[Ids], Target]]) -> TwoTextBatch:
    """Two texts of each example. Raises ValueError for no examples at all."""
    targets = _targets(examples)
    first, second = (padded([texts[side] for texts, _ in examples]) for side in (0, 1))
    return TwoTextBatch(*first, *second, targets)


def collate_documents(
    examples: Sequence[tuple[Sequence[Ids], Target]],
) -> DocumentBatch:
    """The sentences of each example, of which there may be none. Raises ValueError for no examples at all."""
    targets = _targets(examples)
    rows = [ids for sentences, _ in examples for ids in sentences]
    order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
    place = {row: place for place, row in enumerate(order)}
    tokens, lengths = padded([rows[row] for row in order])
    places, first = [], 0
    for sentences, _ in examples:
        places.append([place[row] for row in range(first, first + len(sentences))])
        first += len(sentences)
    return DocumentBatch(tokens, lengths, *padded(places), targets)


def _targets(
    examples: Sequence[tuple[object, Target]],
) -> Shaped[Tensor, "batch *output"]:
    if not examples:
        raise ValueError("a batch got no examples; expected at least one")
    return torch.tensor([each for _, each in examples])


def shortened(texts: Sequence[Ids], most: int) -> tuple[Ids, ...]:
    """Texts of together at most `most` tokens, cut at their ends, the longest first."""
    found = [list(each) for each in texts]
    while (over := sum(map(len, found)) - most) > 0:
        longest = max(found, key=len)
        others = max((len(each) for each in found if each is not longest), default=0)
        del longest[-min(over, max(1, len(longest) - others)) :]
    return tuple(found)
