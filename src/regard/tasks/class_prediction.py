"""What tasks that predict one of several classes share: labels, predictions and metrics."""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, runtime_checkable

import torch
from pydantic import Field
from torch import Tensor

from regard.data.stored import Stored, remembered
from regard.errors import InputError, quoted, shortened
from regard.shapes import Float
from regard.storage.run_folder import LABELS, RunDirectory
from regard.tasks.label_checks import UNDECIDED
from regard.tasks.prediction import ShortRepr, flat

Weight = Annotated[float, Field(gt=0, le=1_000_000, allow_inf_nan=False)]
ClassWeights = Literal["balanced"] | dict[str, Weight] | None
"""The weights of classes in the loss: none, `balanced`, or those of some classes, 1 for the others."""
log = logging.getLogger("regard")
SHOWN = 10
"""The most classes that a message lists."""


@dataclass(frozen=True, repr=False)
class ClassPrediction(ShortRepr):
    """The most likely class, `label`, and the probability of every class, the most likely first."""

    label: str
    probabilities: dict[str, float]

    @classmethod
    def of(cls, labels: Sequence[str], row: Sequence[float]) -> "ClassPrediction":
        """The prediction of a row of probabilities, one for each label."""
        ranked = dict(sorted(zip(labels, row, strict=True), key=lambda pair: -pair[1]))
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
        """The label and its probability, with a tab between."""
        return [f"{flat(self.label)}\t{self.probability:.4f}"]

    def __str__(self) -> str:
        return f"{self.label}, probability {self.probability:.2f}"

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return dict(vars(self))


@runtime_checkable
class LabelledExample(Protocol):
    """An example with its class and where it came from (`file:line`)."""

    @property
    def label(self) -> str: ...

    @property
    def place(self) -> str: ...


def label_counts(examples: Sequence[LabelledExample]) -> dict[str, int]:
    """How often each label occurs; of a set on disk they are counted once."""
    return remembered(examples, "labels", lambda: dict(Counter(_labels(examples))))


def _labels(examples: Sequence[LabelledExample]) -> Iterator[str]:
    return (
        examples.values("label")
        if isinstance(examples, Stored)
        else (each.label for each in examples)
    )


def constant_accuracy(counts: Mapping[str, int]) -> str:
    """A line on the accuracy of the constant prediction of the most frequent label, with which a model's compares."""
    label = max(counts, key=lambda each: counts[each])
    return f"always {quoted(label)} has an accuracy of {100 * counts[label] / sum(counts.values()):.4g}"


def report_constant(counts: Mapping[str, int]) -> None:
    """Log `constant_accuracy`, for an evaluation."""
    log.info(constant_accuracy(counts))


def training_labels(
    found: Iterable[str], train: str | None, start: str | None
) -> list[str]:
    """The labels of the training file, as `in_order_of` the run that training starts from.

    Raises:
        InputError: there is one class only, or the folder is no run.
    """
    labels = sorted(set(found))
    if len(labels) < 2:
        raise InputError(
            f"{train}: every label is {quoted(labels[0])}; expected two classes or more"
        )
    return in_order_of(start, labels)


def in_order_of(start: str | None, labels: list[str]) -> list[str]:
    """The labels; where the run in the folder `start` has the same set, in its order. Raises InputError for a folder
    that is no run."""
    started = None if start is None else RunDirectory.open(Path(start))
    known: Any = (
        started.read_labels() if started is not None and started.has(LABELS) else []
    )
    return known if sorted(known) == labels else labels


def class_indices(
    labels: Sequence[str], examples: Sequence[LabelledExample]
) -> list[int]:
    """The class of each example. Raises InputError for a class that the model was not trained on."""
    known = {label: number for number, label in enumerate(labels)}
    found = [known.get(label, -1) for label in _labels(examples)]
    if -1 in found:
        raise _unknown_class(examples[found.index(-1)], labels)
    return found


def _unknown_class(example: LabelledExample, labels: Sequence[str]) -> InputError:
    shown = ", ".join(map(shortened, labels[:SHOWN])) + (
        f" and {len(labels) - SHOWN} more" if len(labels) > SHOWN else ""
    )
    numbers = len(labels) > SHOWN and all(
        label.replace(".", "", 1).isdecimal() for label in labels
    )
    hint = "; numbers are learned by the recipe regression" if numbers else ""
    if example.label == UNDECIDED:
        hint = (
            "; train with --set data.ignore=-, which leaves such rows out of all sets"
        )
    return InputError(
        f"{example.place}: label {quoted(example.label)} is none of the training set's: {shown}{hint}"
    )


def class_weights(
    setting: ClassWeights, labels: Sequence[str], counts: Mapping[str, int]
) -> tuple[float, ...]:
    """The weight of each class in the loss, by the `counts` of its examples; none at all without a setting. `balanced`
    ones are examples / (classes x examples of the class), so that each class counts as much as another. Raises
    InputError for a class without examples."""
    if setting is None:
        return ()
    if setting == "balanced":
        return tuple(
            sum(counts.values()) / (len(labels) * counts[label]) for label in labels
        )
    if unknown := sorted(setting.keys() - set(labels)):
        raise InputError(
            f"class_weights: {unknown[0]!r} is no class; expected of {', '.join(map(shortened, labels[:SHOWN]))}"
        )
    return tuple(setting.get(label, 1.0) for label in labels)


def class_metrics(
    probabilities: Float[Tensor, "example class"], classes: Sequence[int]
) -> dict[str, float]:
    """accuracy: the share of right predictions; macro-f1: the mean of the F1 of each class. Both in per cent."""
    predicted, right = probabilities.argmax(-1), torch.tensor(classes)
    scores = []
    for each in right.unique():
        both = ((predicted == each) & (right == each)).sum()
        scores.append(2 * both / ((predicted == each).sum() + (right == each).sum()))
    return {
        "accuracy": 100 * float((predicted == right).float().mean()),
        "macro-f1": 100 * float(torch.stack(scores).mean()),
    }
