"""A padded batch of bit sequences."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.shapes import Bool, Float, Int
from regard.tasks.algorithmic.data import BitSequence


@dataclass(frozen=True)
class BitBatch(Batch):
    """Inputs `(batch, position, input_width)`, zero past each sequence's own `lengths`; at the steps that are `asked`
    for, `answers` should be said."""

    inputs: Float[Tensor, "batch position input_width"]
    lengths: Int[Tensor, " batch"]
    answers: Float[Tensor, "batch position output_width"]
    asked: Bool[Tensor, "batch position"]


def collate_bits(sequences: Sequence[BitSequence]) -> BitBatch:
    """Pads sequences. Raises ValueError for none at all."""
    if not sequences:
        raise ValueError("collate_bits() got no sequences; expected at least one")
    first, longest = sequences[0], max(map(len, sequences))
    inputs = torch.zeros(len(sequences), longest, first.inputs.shape[1])
    answers = torch.zeros(len(sequences), longest, first.answer.shape[1])
    asked = torch.zeros(len(sequences), longest, dtype=torch.bool)
    for row, each in enumerate(sequences):
        inputs[row, : len(each)] = torch.from_numpy(each.inputs)
        answers[row, len(each) - len(each.answer) : len(each)] = torch.from_numpy(each.answer)
        asked[row, len(each) - len(each.answer) : len(each)] = True
    return BitBatch(inputs, torch.tensor([len(each) for each in sequences]), answers, asked)
