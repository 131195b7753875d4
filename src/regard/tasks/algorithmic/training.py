"""Training on algorithmic tasks: bit sequences in batches, the loss and the metrics."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.data.batching import Batch
from regard.data.token_batches import batch_size, token_batches
from regard.models.turing_machine import TuringMachine
from regard.shapes import Bool, Float, Int
from regard.tasks.algorithmic.data import BitSequence
from regard.training.objective import Carried, Loss
from regard.training.settings import Training
from regard.work import computed

ROWS = 64
"""Sequences in one batch of evaluation."""


@dataclass(frozen=True, repr=False)
class BitBatch(Batch):
    """Inputs, zero past each sequence's own `lengths`, and the `targets` of the steps that `predicted` marks."""

    inputs: Float[Tensor, "batch position input_width"]
    lengths: Int[Tensor, " batch"]
    targets: Float[Tensor, "batch position output_width"]
    predicted: Bool[Tensor, "batch position"]


def collate_bits(sequences: Sequence[BitSequence]) -> BitBatch:
    """Pad sequences. Raises ValueError for no sequences."""
    if not sequences:
        raise ValueError("collate_bits() got no sequences; expected at least one")
    first, longest = sequences[0], max(map(len, sequences))
    inputs = torch.zeros(len(sequences), longest, first.inputs.shape[1])
    targets = torch.zeros(len(sequences), longest, first.target.shape[1])
    predicted = torch.zeros(len(sequences), longest, dtype=torch.bool)
    for row, each in enumerate(sequences):
        inputs[row, : len(each)] = torch.from_numpy(each.inputs)
        targets[row, len(each) - len(each.target) : len(each)] = torch.from_numpy(
            each.target
        )
        predicted[row, len(each) - len(each.target) : len(each)] = True
    return BitBatch(
        inputs, torch.tensor([len(each) for each in sequences]), targets, predicted
    )


class AlgorithmicObjective:
    """Maximum likelihood of each bit of the targets."""

    metric, higher_is_better = "bits-per-sequence", False

    def __init__(
        self,
        train: Sequence[BitSequence],
        valid: Sequence[BitSequence],
        settings: Training,
    ):
        """Raises InputError for no sequences."""
        self.train, self.valid, self.settings = train, valid, settings
        self.lengths = [(len(each), len(each)) for each in train]
        self.tokens = batch_size(
            self.lengths, settings.batch_tokens, "training sequences"
        )

    def place(self, index: int) -> str:
        """Where a training sequence came from."""
        return self.train[index].place

    def batches(self, epoch: int) -> Sequence[list[int]]:
        return token_batches(self.lengths, self.tokens, self.settings.seed, epoch)

    def batch(self, epoch: int, indices: list[int]) -> BitBatch:
        return collate_bits([self.train[index] for index in indices])

    def loss(
        self,
        model: nn.Module,
        batch: BitBatch,
        update: int,
        carried: Carried | None = None,
    ) -> Loss:
        logits, targets = (
            model(batch.inputs, batch.lengths)[batch.predicted],
            batch.targets[batch.predicted],
        )
        total = functional.binary_cross_entropy_with_logits(
            logits, targets, reduction="sum"
        )
        return Loss(total, targets.numel(), read=int(batch.lengths.sum()))

    def validate(self, model: nn.Module) -> dict[str, float]:
        assert isinstance(model, TuringMachine)
        return figures(model, self.valid)


@torch.no_grad()
def probabilities(
    model: TuringMachine, sequences: Sequence[BitSequence], rows: int | None = None
) -> list[Float[Tensor, "position output_width"]]:
    """The probability that each bit of a target is 1, on a tape of `rows` rows, by default the model's own."""
    device, found = next(model.parameters()).device, [torch.zeros(0)] * len(sequences)
    order = sorted(range(len(sequences)), key=lambda index: len(sequences[index]))

    def outputs_of(some: list[int]) -> Tensor:
        batch = collate_bits([sequences[index] for index in some]).to(device)
        return model(batch.inputs, batch.lengths, rows=rows).double().sigmoid().cpu()

    groups = [order[first : first + ROWS] for first in range(0, len(order), ROWS)]
    for some, outputs in zip(groups, computed(outputs_of, groups), strict=True):
        for row, index in enumerate(some):
            each = sequences[index]
            found[index] = outputs[row, len(each) - len(each.target) : len(each)]
    return found


def figures(
    model: TuringMachine, sequences: Sequence[BitSequence], rows: int | None = None
) -> dict[str, float]:
    """bits-per-sequence: the mean cross-entropy of a target in bits (Graves 2014, figure 3). wrong-bits: the share of
    wrong bits; exact-match: the share of outputs that equal their target. Both in per cent."""
    cost = wrong = whole = count = 0.0
    for found, each in zip(
        probabilities(model, sequences, rows), sequences, strict=True
    ):
        target = torch.from_numpy(each.target).double()
        missed = int(((found > 0.5) != (target > 0.5)).sum())
        cost += float(
            functional.binary_cross_entropy(found, target, reduction="sum")
        ) / math.log(2)
        wrong, whole, count = (
            wrong + missed,
            whole + (missed == 0),
            count + target.numel(),
        )
    return {
        "bits-per-sequence": cost / len(sequences),
        "wrong-bits": 100 * wrong / count,
        "exact-match": 100 * whole / len(sequences),
    }
