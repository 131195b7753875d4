"""Pointing: sets of vectors to batches, a loss, and how often an answer is right."""

from collections.abc import Sequence

import torch
from torch import nn

from regard.data.batching import require_one_batch, token_batches
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.search import Search
from regard.models.pointer_network import PointerNetwork
from regard.nn.position_output import END
from regard.tasks.pointer.batch import SetBatch, collate_sets
from regard.tasks.pointer.data import PointedSet
from regard.training.objective import Carried, Loss
from regard.training.schedules import forcing
from regard.training.settings import Training

ROWS = 256
"""Sets that are answered together."""


class PointerObjective:
    """Maximum likelihood of the places that answer, one at a time."""

    metric, higher_is_better = "exact-match", True

    def __init__(self, train: Sequence[PointedSet], valid: Sequence[PointedSet], settings: Training):
        """Raises InputError for fewer sets than one batch."""
        self.train, self.valid, self.settings = train, valid, settings
        self.lengths = [(len(each.elements) + 1, len(each.answer) + 1) for each in train]
        require_one_batch(self.lengths, settings.batch_tokens, "training sets")

    def place(self, index: int) -> str:
        """Where a training set came from."""
        return self.train[index].place

    def batches(self, epoch: int) -> list[list[int]]:
        return token_batches(self.lengths, self.settings.batch_tokens, self.settings.seed, epoch)

    def batch(self, epoch: int, indices: list[int]) -> SetBatch:
        return collate_sets([self.train[index] for index in indices])

    def loss(self, model: nn.Module, batch: SetBatch, update: int, carried: Carried | None = None) -> Loss:
        total, _ = model(
            batch.elements,
            batch.lengths,
            batch.target_in,
            forcing=forcing(self.settings, update),
            expected=batch.target_out,
        )
        return Loss(total, batch.target_tokens)

    def validate(self, model: nn.Module) -> dict[str, float]:
        assert isinstance(model, PointerNetwork)
        return figures(model, self.valid, Search())


@torch.no_grad()
def answers(model: PointerNetwork, sets: Sequence[PointedSet], search: Search) -> list[Hypothesis]:
    """The best hypothesis for each set, at most one place more than it has elements; see `places`."""
    device, found = next(model.parameters()).device, []
    for first in range(0, len(sets), ROWS):
        batch = collate_sets(sets[first : first + ROWS]).to(device)
        memory = model.encoder(batch.elements, batch.lengths)
        found += [best for (best, *_) in search(model.decoder, memory, batch.lengths + 1)]
    return found


def places(hypothesis: Hypothesis) -> tuple[int, ...]:
    """The places that it points to, counted from 0."""
    return tuple(token - END - 1 for token in hypothesis.tokens)


def figures(model: PointerNetwork, sets: Sequence[PointedSet], search: Search) -> dict[str, float]:
    """exact-match: how many answers are right as a whole, in per cent. places: of the places asked for, how many are
    right where they stand."""
    found = [places(each) for each in answers(model, sets, search)]
    whole = sum(own == each.answer for own, each in zip(found, sets, strict=True))
    right = sum(
        one == other
        for own, each in zip(found, sets, strict=True)
        for one, other in zip(own, each.answer, strict=False)
    )
    return {"exact-match": 100 * whole / len(sets), "places": 100 * right / sum(len(each.answer) for each in sets)}
