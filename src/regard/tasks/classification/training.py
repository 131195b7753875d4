"""Training of classifiers: texts in batches, the loss and the metrics."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.cancellation import checkpoint
from regard.data.batching import require_one_batch, require_room, token_batches
from regard.models.classifier import Classifier
from regard.shapes import Float
from regard.tasks.class_prediction import class_metrics
from regard.tasks.classification.batch import ClassBatch
from regard.tasks.classification.forms.protocol import Form
from regard.training.objective import Carried, Loss
from regard.training.settings import Training

ROWS, POSITIONS = 64, 2**16
"""The maximum of texts in a batch of evaluation, and of their positions unless one text has more."""
Example = tuple[Any, int]
"""An example encoded by the model's form, and the index of its class."""


class ClassificationObjective:
    """The cross-entropy of the classes."""

    metric, higher_is_better = "accuracy", True

    def __init__(
        self,
        train: Sequence[Example],
        valid: Sequence[Example],
        form: Form[Any],
        settings: Training,
        *,
        places: Sequence[str],
    ):
        """`places` are the files and lines of the training texts. Raises InputError for fewer texts than one batch, and
        for one longer than a batch."""
        self.train, self.valid, self.form, self.settings, self.places = train, valid, form, settings, places
        self.lengths = [(length, length) for length in (form.positions(each) for each, _ in train)]
        require_one_batch(self.lengths, settings.batch_tokens, "training texts")
        require_room(self.lengths, settings.batch_tokens, self.place, "text")

    def place(self, index: int) -> str:
        """Where a training text came from."""
        return self.places[index]

    def batches(self, epoch: int) -> list[list[int]]:
        return token_batches(self.lengths, self.settings.batch_tokens, self.settings.seed, epoch)

    def batch(self, epoch: int, indices: list[int]) -> ClassBatch:
        return self.form.collate([self.train[index] for index in indices])

    def loss(self, model: nn.Module, batch: ClassBatch, update: int, carried: Carried | None = None) -> Loss:
        total = functional.cross_entropy(
            model(*batch.inputs), batch.classes, reduction="sum", label_smoothing=self.settings.label_smoothing
        )
        return Loss(total, len(batch.classes))

    def validate(self, model: nn.Module) -> dict[str, float]:
        assert isinstance(model, Classifier)
        found = probabilities(model, self.form, [each for each, _ in self.valid])
        return class_metrics(found, [each for _, each in self.valid])


@torch.no_grad()
def probabilities(model: Classifier, form: Form[Any], texts: Sequence[Any]) -> Float[Tensor, "text class"]:
    """The probability of each class for each encoded text."""
    device = next(model.parameters()).device
    found = [torch.zeros(0, model.output.out_features)]
    for some in parts(texts, form):
        checkpoint()
        batch = form.collate([(each, 0) for each in some]).to(device)
        found.append(model(*batch.inputs).softmax(-1).cpu())
    return torch.cat(found)


def parts(texts: Sequence[Any], form: Form[Any]) -> Iterator[list[Any]]:
    """Consecutive texts, as many in a batch as fit."""
    some: list[Any] = []
    positions = 0
    for each in texts:
        more = form.positions(each)
        if some and (len(some) == ROWS or positions + more > POSITIONS):
            yield some
            some, positions = [], 0
        some.append(each)
        positions += more
    if some:
        yield some
