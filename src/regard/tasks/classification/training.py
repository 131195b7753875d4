"""Training of models that read texts: texts in batches, the loss and the metrics."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.data.token_batches import batch_size, require_room, token_batches
from regard.models.classifier import Classifier
from regard.shapes import Float
from regard.tasks.classification.batch import LabelledBatch
from regard.tasks.classification.encoded import Example, lengths_of
from regard.tasks.classification.forms.protocol import Form
from regard.tasks.classification.outputs import Outputs
from regard.training.objective import Carried, Loss
from regard.training.settings import Training
from regard.work import computed

ROWS, POSITIONS = 64, 2**16
"""The maximum of texts in a batch of evaluation, and of their positions unless one text has more."""


class TextObjective:
    """The loss of the model's outputs."""

    def __init__(
        self,
        train: Sequence[Example],
        valid: Sequence[Example],
        form: Form[Any],
        outputs: Outputs[Any, Any],
        settings: Training,
        *,
        places: Sequence[str],
    ):
        """`places` are the files and lines of the training texts. Raises InputError for no texts, and for one longer
        than a batch."""
        self.train, self.valid, self.form, self.outputs = train, valid, form, outputs
        self.settings, self.places = settings, places
        self.metric, self.higher_is_better = outputs.metric, outputs.higher_is_better
        self.lengths = lengths_of(train, form)
        self.tokens = batch_size(self.lengths, settings.batch_tokens, "training texts")
        require_room(self.lengths, settings.batch_tokens, self.place, "text")

    def place(self, index: int) -> str:
        """Where a training text came from."""
        return self.places[index]

    def batches(self, epoch: int) -> Sequence[list[int]]:
        return token_batches(self.lengths, self.tokens, self.settings.seed, epoch)

    def batch(self, epoch: int, indices: list[int]) -> LabelledBatch:
        return self.form.collate([self.train[index] for index in indices])

    def loss(
        self,
        model: nn.Module,
        batch: LabelledBatch,
        update: int,
        carried: Carried | None = None,
    ) -> Loss:
        total = self.outputs.loss(
            model(*batch.inputs), batch.targets, self.settings.label_smoothing
        )
        return Loss(total, len(batch.targets), read=batch.size)

    def validate(self, model: nn.Module) -> dict[str, float]:
        assert isinstance(model, Classifier)
        found = logits_of(model, self.form, [each for each, _ in self.valid])
        return self.outputs.metrics(found, [each for _, each in self.valid])


@torch.no_grad()
def logits_of(
    model: Classifier, form: Form[Any], texts: Sequence[Any]
) -> Float[Tensor, "text output"]:
    """The logits of each encoded text."""
    device = next(model.parameters()).device

    def logits(some: list[Any]) -> Tensor:
        return model(
            *form.collate([(each, 0) for each in some]).to(device).inputs
        ).cpu()

    return torch.cat(
        [
            torch.zeros(0, model.output.out_features),
            *computed(logits, parts(texts, form)),
        ]
    )


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
