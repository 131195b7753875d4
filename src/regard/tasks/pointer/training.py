"""Training of pointer networks: sets of vectors in batches, the loss and the metrics."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.data.batching import Batch, padded
from regard.data.token_batches import batch_size, token_batches
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.search import Search
from regard.models.pointer_network import END, PointerNetwork
from regard.shapes import Float, Int
from regard.tasks.pointer.data import PointedSet
from regard.text.special import IGNORED, SPECIAL
from regard.training.objective import Carried, Loss
from regard.training.schedules import forcing
from regard.training.settings import Training
from regard.work import computed

ROWS = 256
"""Sets in one batch of decoding."""


@dataclass(frozen=True, repr=False)
class SetBatch(Batch):
    """Vectors, zero past each set's own `lengths`. The decoder reads `target_in` and predicts `target_out`, padded
    with `IGNORED`, where place i is the token END + 1 + i."""

    elements: Float[Tensor, "batch element element_width"]
    lengths: Int[Tensor, " batch"]
    target_in: Int[Tensor, "batch target"]
    target_out: Int[Tensor, "batch target"]
    target_tokens: int


def collate_sets(sets: Sequence[PointedSet]) -> SetBatch:
    """Pad sets and their targets. Raises ValueError for no sets."""
    if not sets:
        raise ValueError("collate_sets() got no sets; expected at least one")
    lengths = torch.tensor([len(each.elements) for each in sets])
    elements = torch.zeros(len(sets), int(lengths.max()), len(sets[0].elements[0]))
    for row, each in enumerate(sets):
        elements[row, : len(each.elements)] = torch.tensor(each.elements)
    targets = [[END + 1 + place for place in each.target] for each in sets]
    target_in, _ = padded([[SPECIAL.start, *target] for target in targets])
    target_out, _ = padded([[*target, END] for target in targets], fill=IGNORED)
    return SetBatch(
        elements,
        lengths,
        target_in,
        target_out,
        sum(len(target) + 1 for target in targets),
    )


class PointerObjective:
    """Maximum likelihood of the target places, one at a time."""

    metric, higher_is_better = "exact-match", True

    def __init__(
        self,
        train: Sequence[PointedSet],
        valid: Sequence[PointedSet],
        settings: Training,
    ):
        """Raises InputError for no sets."""
        self.train, self.valid, self.settings = train, valid, settings
        self.lengths = [
            (len(each.elements) + 1, len(each.target) + 1) for each in train
        ]
        self.tokens = batch_size(self.lengths, settings.batch_tokens, "training sets")

    def place(self, index: int) -> str:
        """The place of a training set, for messages."""
        return self.train[index].place

    def batches(self, epoch: int) -> Sequence[list[int]]:
        return token_batches(self.lengths, self.tokens, self.settings.seed, epoch)

    def batch(self, epoch: int, indices: list[int]) -> SetBatch:
        return collate_sets([self.train[index] for index in indices])

    def loss(
        self,
        model: nn.Module,
        batch: SetBatch,
        update: int,
        carried: Carried | None = None,
    ) -> Loss:
        assert isinstance(model, PointerNetwork)
        features = model.features(
            batch.elements,
            batch.lengths,
            batch.target_in,
            forcing(self.settings, update),
        )
        total, _ = model.decoder.output.loss(features, batch.target_out)
        return Loss(total, batch.target_tokens)

    def validate(self, model: nn.Module) -> dict[str, float]:
        assert isinstance(model, PointerNetwork)
        return figures(model, self.valid, Search())


@torch.no_grad()
def decode(
    model: PointerNetwork, sets: Sequence[PointedSet], search: Search
) -> list[Hypothesis]:
    """The best hypothesis for each set, at most one place longer than the set; `places` reads it."""
    device = next(model.parameters()).device

    def decoded(first: int) -> list[Hypothesis]:
        batch = collate_sets(sets[first : first + ROWS]).to(device)
        memory = model.encoder(batch.elements, batch.lengths)
        return [best for (best, *_) in search(model.decoder, memory, batch.lengths + 1)]

    return [
        each for some in computed(decoded, range(0, len(sets), ROWS)) for each in some
    ]


def places(hypothesis: Hypothesis) -> tuple[int, ...]:
    """The places of a hypothesis, counted from 0."""
    return tuple(token - END - 1 for token in hypothesis.tokens)


def figures(
    model: PointerNetwork, sets: Sequence[PointedSet], search: Search
) -> dict[str, float]:
    """exact-match: the share of outputs that equal their target; places: the share of target places with a right
    prediction. Both in per cent."""
    found = [places(each) for each in decode(model, sets, search)]
    whole = sum(own == each.target for own, each in zip(found, sets, strict=True))
    right = sum(
        one == other
        for own, each in zip(found, sets, strict=True)
        for one, other in zip(own, each.target, strict=False)
    )
    return {
        "exact-match": 100 * whole / len(sets),
        "places": 100 * right / sum(len(each.target) for each in sets),
    }
