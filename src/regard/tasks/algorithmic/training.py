"""Bit sequences to batches, a loss, and how many bits an answer costs."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.data.batching import require_one_batch, token_batches
from regard.models.turing_machine import TuringMachine
from regard.shapes import Float
from regard.tasks.algorithmic.batch import BitBatch, collate_bits
from regard.tasks.algorithmic.data import BitSequence
from regard.training.objective import Carried, Loss
from regard.training.settings import Training

ROWS = 64
"""Sequences that are answered together."""


class AlgorithmicObjective:
    """Maximum likelihood of each bit of the answers."""

    metric, higher_is_better = "bits-per-sequence", False

    def __init__(self, train: Sequence[BitSequence], valid: Sequence[BitSequence], settings: Training):
        """Raises InputError for fewer sequences than one batch."""
        self.train, self.valid, self.settings = train, valid, settings
        self.lengths = [(len(each), len(each)) for each in train]
        require_one_batch(self.lengths, settings.batch_tokens, "training sequences")

    def place(self, index: int) -> str:
        """Where a training sequence came from."""
        return self.train[index].place

    def batches(self, epoch: int) -> list[list[int]]:
        return token_batches(self.lengths, self.settings.batch_tokens, self.settings.seed, epoch)

    def batch(self, epoch: int, indices: list[int]) -> BitBatch:
        return collate_bits([self.train[index] for index in indices])

    def loss(self, model: nn.Module, batch: BitBatch, update: int, carried: Carried | None = None) -> Loss:
        logits, answers = model(batch.inputs, batch.lengths)[batch.asked], batch.answers[batch.asked]
        return Loss(functional.binary_cross_entropy_with_logits(logits, answers, reduction="sum"), answers.numel())

    def validate(self, model: nn.Module) -> dict[str, float]:
        assert isinstance(model, TuringMachine)
        return figures(model, self.valid)


@torch.no_grad()
def probabilities(
    model: TuringMachine, sequences: Sequence[BitSequence], rows: int | None = None
) -> list[Float[Tensor, "position output_width"]]:
    """Of each bit of each answer that it is 1, on a tape of so many rows, by default the configuration's."""
    device, found = next(model.parameters()).device, [torch.zeros(0)] * len(sequences)
    order = sorted(range(len(sequences)), key=lambda index: len(sequences[index]))
    for first in range(0, len(order), ROWS):
        some = order[first : first + ROWS]
        batch = collate_bits([sequences[index] for index in some]).to(device)
        told = model(batch.inputs, batch.lengths, rows=rows).double().sigmoid().cpu()
        for row, index in enumerate(some):
            each = sequences[index]
            found[index] = told[row, len(each) - len(each.answer) : len(each)]
    return found


def figures(model: TuringMachine, sequences: Sequence[BitSequence], rows: int | None = None) -> dict[str, float]:
    """bits-per-sequence: the cross-entropy of an answer in bits, the mean over sequences (Graves 2014, figure 3).
    wrong-bits: how many of all bits are wrong, and exact-match: how many answers are right as a whole, in per cent."""
    cost = wrong = whole = count = 0.0
    for told, each in zip(probabilities(model, sequences, rows), sequences, strict=True):
        answer = torch.from_numpy(each.answer).double()
        missed = int(((told > 0.5) != (answer > 0.5)).sum())
        cost += float(functional.binary_cross_entropy(told, answer, reduction="sum")) / math.log(2)
        wrong, whole, count = wrong + missed, whole + (missed == 0), count + answer.numel()
    return {
        "bits-per-sequence": cost / len(sequences),
        "wrong-bits": 100 * wrong / count,
        "exact-match": 100 * whole / len(sequences),
    }
