"""Telling classes: labelled texts to batches, a loss, and how often the class is right."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regard.data.batches import require_one_batch, token_batches
from regard.data.images import LabelledImage
from regard.data.label_batch import LabelBatch, collate_labelled, shortened
from regard.data.labelled import Labelled
from regard.data.marked import Ids, marked
from regard.errors import InputError
from regard.models.bert_classifier import BertClassifier
from regard.shapes import Float
from regard.text import Tokenizer
from regard.training.settings import Training
from regard.training.task import Carried, Loss

ROWS = 64
"""Texts whose classes are told together."""
Texts = tuple[Ids, ...]
"""The tokens of one text, or of two."""
Example = tuple[Texts, int]
"""With the number of its class."""


class ClassificationTask:
    """The cross-entropy of the classes."""

    metric, higher_is_better = "accuracy", True

    def __init__(self, train: Sequence[Example], valid: Sequence[Example], settings: Training):
        """Raises InputError for fewer texts than one batch."""
        self.train, self.valid, self.settings = train, valid, settings
        self.lengths = [(length, length) for length in (len(marked(*texts)[0]) for texts, _ in train)]
        require_one_batch(self.lengths, settings.batch_tokens, "training texts")

    def batches(self, epoch: int) -> list[list[int]]:
        return token_batches(self.lengths, self.settings.batch_tokens, self.settings.seed, epoch)

    def batch(self, epoch: int, indices: list[int]) -> LabelBatch:
        return collate_labelled([self.train[index] for index in indices])

    def loss(self, model: nn.Module, batch: LabelBatch, update: int, carried: Carried | None = None) -> Loss:
        smoothing = self.settings.label_smoothing
        total = model(batch.tokens, batch.lengths, batch.segments, expected=batch.classes, smoothing=smoothing)
        return Loss(total, len(batch.classes))

    def validate(self, model: nn.Module) -> dict[str, float]:
        assert isinstance(model, BertClassifier)
        return figures(probabilities(model, [texts for texts, _ in self.valid]), [each for _, each in self.valid])


def numbers(labels: Sequence[str], examples: Sequence[Labelled | LabelledImage]) -> list[int]:
    """The class of each example. Raises InputError for one that the model was not trained to tell."""
    known = {label: number for number, label in enumerate(labels)}
    for each in examples:
        if each.label not in known:
            raise InputError(f"{each.place}: label {each.label!r} is none of the training set's: {', '.join(labels)}")
    return [known[each.label] for each in examples]


def encoded(examples: Sequence[Labelled], tokenizer: Tokenizer, context: int, *, truncate: bool = False) -> list[Texts]:
    """The tokens of the texts. Raises InputError for one that is longer than the model can take, unless `truncate`
    asks to cut it: the longer of two texts first."""
    found = []
    for each in examples:
        texts = tuple(tokenizer.encode(text) for text in each.texts)
        most = context - 1 - len(texts)
        tokens = sum(map(len, texts))
        if tokens > most and not truncate:
            raise InputError(
                f"{each.place}: {tokens} tokens and {1 + len(texts)} marks, but the model takes {context}; shorten it "
                "or truncate"
            )
        found.append(shortened(texts, most))
    return found


@torch.no_grad()
def probabilities(model: BertClassifier, texts: Sequence[Texts]) -> Float[Tensor, "text class"]:
    """Of each text and class."""
    device = next(model.parameters()).device
    found = [torch.zeros(0, model.output.out_features)]
    for first in range(0, len(texts), ROWS):
        batch = collate_labelled([(each, 0) for each in texts[first : first + ROWS]]).to(device)
        found.append(model(batch.tokens, batch.lengths, batch.segments).softmax(-1).cpu())
    return torch.cat(found)


def figures(told: Float[Tensor, "text class"], classes: Sequence[int]) -> dict[str, float]:
    """accuracy: how many classes are right. macro-f1: the mean over the classes that there are of their F1. Both in per
    cent."""
    guessed, right = told.argmax(-1), torch.tensor(classes)
    scores = []
    for each in right.unique():
        both = ((guessed == each) & (right == each)).sum()
        scores.append(2 * both / ((guessed == each).sum() + (right == each).sum()))
    return {
        "accuracy": 100 * float((guessed == right).float().mean()),
        "macro-f1": 100 * float(torch.stack(scores).mean()),
    }
