"""Classes: their predictions, weights and metrics, and labels that are no classes."""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from regard.data.cache import cache_value
from regard.errors import InputError, quote, shorten
from regard.metrics import Metrics
from regard.shapes import Bool, Float
from regard.storage.run_folder import LABELS, RunDirectory
from regard.tasks.options import ShortRepr, flat

LISTED = 10
"""Largest number of classes that a message lists."""
ClassWeights = Literal["balanced"] | None
"""The weights of classes in the loss: all 1, or such that each counts as much as another."""
log = logging.getLogger("regard")


@dataclass(frozen=True, repr=False)
class ClassPrediction(ShortRepr):
    """The most likely class, and the probability of every class, the most likely first."""

    label: str
    probabilities: dict[str, float]

    @classmethod
    def of(cls, labels: Sequence[str], row: Sequence[float]) -> "ClassPrediction":
        """Return the prediction of a row of probabilities, one for each label."""
        ranked = rank_labels(labels, row)
        return cls(next(iter(ranked)), ranked)

    @property
    def text(self) -> str:
        """The label."""
        return self.label

    @property
    def probability(self) -> float:
        """That of the label."""
        return self.probabilities[self.label]

    def lines(self) -> list[str]:
        """Return the label and its probability, with a tab between."""
        return [f"{flat(self.label)}\t{self.probability:.4f}"]

    def __str__(self) -> str:
        return f"{self.label}, probability {self.probability:.2f}"


def rank_labels(labels: Sequence[str], row: Sequence[float]) -> dict[str, float]:
    """Return the probability of each label, the most likely first."""
    return dict(sorted(zip(labels, row, strict=True), key=lambda pair: -pair[1]))


def count_labels(examples: Sequence[Any]) -> dict[str, int]:
    """Return how often each label occurs; those of a set on disk are counted once."""

    def count() -> dict[str, int]:
        return dict(Counter(example.label for example in examples))

    return cache_value(examples, "labels", count)


def describe_constant_accuracy(counts: Mapping[str, int]) -> str:
    """Return a line on the accuracy of always predicting the most frequent label."""
    label = max(counts, key=lambda item: counts[item])
    accuracy = 100 * counts[label] / sum(counts.values())
    return f"always {quote(label)} has an accuracy of {accuracy:.4g}"


def log_constant_accuracy(counts: Mapping[str, int]) -> None:
    """Log `describe_constant_accuracy`, for an evaluation."""
    log.info(describe_constant_accuracy(counts))


def sort_labels(
    names: Iterable[str], train: str | None, start: str | None
) -> list[str]:
    """Return the labels of a training file, in the order of the run it starts from.

    Raises:
        InputError: There is only one class, or `start` is no run.
    """
    labels = sorted(set(names))
    if len(labels) < 2:
        raise InputError(
            f"{train}: every label is {quote(labels[0])}; expected two classes or more"
        )
    return order_like_start(start, labels)


def order_like_start(start: str | None, labels: list[str]) -> list[str]:
    """Return labels in the order of the run in the folder `start`, if it has the same.

    Raises:
        InputError: The folder is no run.
    """
    if start is None:
        return labels
    run = RunDirectory.open(Path(start))
    names = [*run.read_labels()] if run.has(LABELS) else []
    return names if sorted(names) == labels else labels


def index_classes(labels: Sequence[str], examples: Sequence[Any]) -> list[int]:
    """Return the class of each example, which has a `label` and a `place`.

    Raises:
        InputError: The model was not trained on a class.
    """
    numbers = {label: number for number, label in enumerate(labels)}
    classes = []
    for example in examples:
        if example.label not in numbers:
            raise InputError(
                f"{example.place}: label {quote(example.label)} is none of the training "
                f"set's: {list_labels(labels)}"
            )
        classes.append(numbers[example.label])
    return classes


def list_labels(labels: Sequence[str]) -> str:
    """Return labels for a message, at most `LISTED`."""
    extra = f" and {len(labels) - LISTED} more" if len(labels) > LISTED else ""
    return ", ".join(map(shorten, labels[:LISTED])) + extra


def compute_class_weights(
    setting: ClassWeights, labels: Sequence[str], counts: Mapping[str, int]
) -> tuple[float, ...]:
    """Return the weight of each class in the loss, none without a setting.

    Balanced weights are examples / (classes x examples of the class).
    """
    if setting is None:
        return ()
    total = sum(counts.values())
    return tuple(total / (len(labels) * counts[label]) for label in labels)


def compute_class_metrics(
    probabilities: Float[Tensor, "example class"], classes: Sequence[int]
) -> Metrics:
    """Return accuracy and the mean of the F1 of each class, in percent."""
    sides = probabilities.argmax(-1), torch.tensor(classes)
    labels = [one_hot(side, probabilities.shape[-1]) > 0 for side in sides]
    metrics = label_metrics(*labels)
    return {"accuracy": metrics["exact-match"], "macro-f1": metrics["macro-f1"]}


def label_metrics(
    predicted: Bool[Tensor, "text label"], expected: Bool[Tensor, "text label"]
) -> Metrics:
    """Return metrics of label sets, in percent.

    Returns:
        micro-f1, the F1 of all decisions together; macro-f1, the mean of the F1 of each
        label that a text has; and exact-match, the share of texts with exactly their
        labels. An F1 without any label is 0.
    """
    hits = (predicted & expected).sum(0)
    sizes = predicted.sum(0) + expected.sum(0)
    present = expected.any(0)
    scores = 2 * hits[present] / sizes[present]
    return {
        "micro-f1": 100 * float(2 * hits.sum() / sizes.sum().clamp(min=1)),
        "macro-f1": 100 * float(scores.mean()) if len(scores) else 0.0,
        "exact-match": 100 * float((predicted == expected).all(1).float().mean()),
    }
