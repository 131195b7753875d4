"""The outputs of a model that predicts any number of labels: their loss, predictions and metrics."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from regard.errors import InputError
from regard.shapes import Bool, Float
from regard.tasks.classification.data import Labelled
from regard.tasks.classification.outputs import Labels, NamedOutputs
from regard.tasks.prediction import ShortRepr, flat
from regard.tasks.summary import class_counts

NONE = "(none)"
"""What stands for no label."""


@dataclass(frozen=True, repr=False)
class LabelsPrediction(ShortRepr):
    """The labels of a text, and the probability of every label, the most likely first."""

    labels: tuple[str, ...]
    probabilities: dict[str, float]

    @property
    def text(self) -> str:
        """The labels with commas between."""
        return ", ".join(self.labels) or NONE

    def lines(self) -> list[str]:
        """Each label and its probability, with tabs between."""
        return [
            "\t".join(
                f"{flat(each)}\t{self.probabilities[each]:.4f}" for each in self.labels
            )
            or NONE
        ]

    def __str__(self) -> str:
        return (
            ", ".join(f"{each} {self.probabilities[each]:.4f}" for each in self.labels)
            or NONE
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"labels": list(self.labels), "probabilities": self.probabilities}


@dataclass(frozen=True)
class LabelOutputs(NamedOutputs[list[float], LabelsPrediction]):
    """A logit for each label, whose sigmoid is the label's probability. A text has the labels with a probability of at
    least `threshold`."""

    threshold: float

    problem, metric = "multi_label_classification", "micro-f1"

    @property
    def summary(self) -> str:
        return f"{len(self.labels)} labels"

    def targets(
        self, examples: Sequence[Labelled[tuple[str, ...]]]
    ) -> list[list[float]]:
        """1 for each label of a text and 0 for the others. Raises InputError for a label that is not one of these."""
        known = {label: place for place, label in enumerate(self.labels)}
        found = []
        for each in examples:
            row = [0.0] * len(known)
            for label in each.label:
                if label not in known:
                    raise InputError(
                        f"{each.place}: label {label!r} is none of the training set's: {self._listed()}"
                    )
                row[known[label]] = 1.0
            found.append(row)
        return found

    def labels_of(self, examples: Sequence[Labelled[tuple[str, ...]]]) -> Labels:
        """The labels with their counts."""
        counts = class_counts(label for each in examples for label in each.label)
        return Labels(
            counts,
            "",
            ", ".join(examples[0].label) or NONE,
            tuple(_warnings(counts, self.labels)),
        )

    def loss(
        self, logits: Float[Tensor, "text output"], targets: Tensor, smoothing: float
    ) -> Float[Tensor, ""]:
        """The binary cross-entropy of each label, summed over the labels."""
        return functional.binary_cross_entropy_with_logits(
            logits, targets, reduction="sum"
        )

    def predictions(
        self, logits: Float[Tensor, "text output"]
    ) -> list[LabelsPrediction]:
        found = []
        for row in logits.sigmoid().tolist():
            ranked = dict(
                sorted(zip(self.labels, row, strict=True), key=lambda pair: -pair[1])
            )
            found.append(
                LabelsPrediction(
                    tuple(
                        label
                        for label, share in ranked.items()
                        if share >= self.threshold
                    ),
                    ranked,
                )
            )
        return found

    def metrics(
        self, logits: Float[Tensor, "text output"], targets: Sequence[list[float]]
    ) -> dict[str, float]:
        return label_metrics(
            logits.sigmoid() >= self.threshold, torch.tensor(targets) > 0.5
        )

    def explained(
        self, prediction: LabelsPrediction, logits: Float[Tensor, "1 output"]
    ) -> tuple[str, Float[Tensor, " 1"]]:
        """The log-probability of the most likely label."""
        first = next(iter(prediction.probabilities))
        return first, functional.logsigmoid(logits[:, self.labels.index(first)])

    def _listed(self) -> str:
        shown = ", ".join(self.labels[:20])
        return (
            f"{shown} and {len(self.labels) - 20} more"
            if len(self.labels) > 20
            else shown
        )


def label_metrics(
    predicted: Bool[Tensor, "text label"], expected: Bool[Tensor, "text label"]
) -> dict[str, float]:
    """micro-f1: the F1 of all decisions together; macro-f1: the mean of the F1 of each label that a text has;
    exact-match: the share of texts with exactly their labels. All in per cent; an F1 without any label is 0."""
    both, either = (predicted & expected).sum(0), predicted.sum(0) + expected.sum(0)
    there = expected.any(0)
    each = 2 * both[there] / either[there]
    return {
        "micro-f1": 100 * float(2 * both.sum() / either.sum().clamp(min=1)),
        "macro-f1": 100 * float(each.mean()) if len(each) else 0.0,
        "exact-match": 100 * float((predicted == expected).all(1).float().mean()),
    }


def _warnings(counts: Mapping[str, int], labels: Iterable[str]) -> list[str]:
    """Labels that look like several with another separator."""
    for mark in ";|,":
        several = [label for label in labels if mark in label]
        if several and len(counts) > 1:
            return [
                f"the label {several[0]!r} may be several labels; set data.separator if {mark!r} stands between"
            ]
    return []
