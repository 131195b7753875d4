"""A padded batch of sets of vectors, in the layout that teacher forcing needs."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.data.batch import Batch, padded
from regard.nn.position_output import END
from regard.shapes import Float, Int
from regard.tasks.pointer.data import PointedSet
from regard.text.special import IGNORED, SPECIAL


@dataclass(frozen=True)
class SetBatch(Batch):
    """Vectors `(batch, element, element_width)`, zero past each set's own `lengths`; the decoder reads `target_in` and
    should predict `target_out`, padded with `IGNORED`, where the place i is the token `END` + 1 + i."""

    elements: Float[Tensor, "batch element element_width"]
    lengths: Int[Tensor, " batch"]
    target_in: Int[Tensor, "batch target"]
    target_out: Int[Tensor, "batch target"]
    target_tokens: int


def collate_sets(sets: Sequence[PointedSet]) -> SetBatch:
    """Pads sets and their answers. Raises ValueError for none at all."""
    if not sets:
        raise ValueError("collate_sets() got no sets; expected at least one")
    lengths = torch.tensor([len(each.elements) for each in sets])
    elements = torch.zeros(len(sets), int(lengths.max()), len(sets[0].elements[0]))
    for row, each in enumerate(sets):
        elements[row, : len(each.elements)] = torch.tensor(each.elements)
    answers = [[END + 1 + place for place in each.answer] for each in sets]
    target_in, _ = padded([[SPECIAL.start, *answer] for answer in answers])
    target_out, _ = padded([[*answer, END] for answer in answers], fill=IGNORED)
    return SetBatch(elements, lengths, target_in, target_out, sum(len(answer) + 1 for answer in answers))
