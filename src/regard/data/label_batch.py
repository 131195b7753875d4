"""A padded batch of marked texts with their classes."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.data.batch import Batch, padded
from regard.data.marked import Ids, marked
from regard.shapes import Int


@dataclass(frozen=True)
class LabelBatch(Batch):
    """Texts padded on the right, the segment of each token, and the class of each text by its number."""

    tokens: Int[Tensor, "batch position"]
    lengths: Int[Tensor, " batch"]
    segments: Int[Tensor, "batch position"]
    classes: Int[Tensor, " batch"]


def collate_labelled(examples: Sequence[tuple[Sequence[Ids], int]]) -> LabelBatch:
    """One text or two of each example, as tokens, with its class. Raises ValueError for no examples at all."""
    if not examples:
        raise ValueError("collate_labelled() got no examples; expected at least one")
    rows = [marked(*texts) for texts, _ in examples]
    tokens, lengths = padded([ids for ids, _ in rows])
    segments, _ = padded([parts for _, parts in rows])
    return LabelBatch(tokens, lengths, segments, torch.tensor([each for _, each in examples], dtype=torch.int64))


def shortened(texts: Sequence[Ids], most: int) -> tuple[Ids, ...]:
    """Texts of together at most `most` tokens, cut at their ends, the longest first."""
    found = [list(each) for each in texts]
    while (over := sum(map(len, found)) - most) > 0:
        longest = max(found, key=len)
        others = max((len(each) for each in found if each is not longest), default=0)
        del longest[-min(over, max(1, len(longest) - others)) :]
    return tuple(found)
