"""Labels that are probably no classes: numbers, several labels in one, a header."""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, runtime_checkable

import torch
from pydantic import Field
from torch import Tensor

from regard.data.cache import CachedSet, cache_value
from regard.errors import InputError, quote, shorten
from regard.shapes import Float
from regard.storage.run_folder import LABELS, RunDirectory
from regard.tasks.prediction import ShortRepr, flat

FEW = 20
"""The fewest rows whose classes are compared with their number."""
IMBALANCED = 10
"""How many times as frequent as the rarest a class is that deserves a mention."""
NO_LABEL = "-"


def check_distinct(classes: Mapping[str, int], path: str | None) -> None:
    """Raise InputError where most rows have a class of their own, as a column of texts."""
    rows = sum(classes.values())
    single = [label for label, count in classes.items() if count == 1]
    if rows >= FEW and 2 * len(single) > rows:
        raise InputError(
            f"{path}: {len(single):,} of {rows:,} training rows have a class of their own, "
            f"such as {quote(single[0])}; expected a few classes: set data.label to their "
            "column, or learn numbers by the recipe regression"
        )


def warn_labels(classes: Mapping[str, int]) -> list[str]:
    """Return a warning for the label by which SNLI marks texts without an agreement."""
    if NO_LABEL not in classes or "+" in classes:
        return []
    return [
        f"{classes[NO_LABEL]:,} training examples have the label {NO_LABEL!r}, which marks "
        "texts without a class in SNLI and MultiNLI; leave them out by "
        "--set data.ignore=-"
    ]


def imbalance(classes: Mapping[str, int]) -> list[str]:
    """Return a hint where some class is far more frequent than another."""
    maximum, least = max(classes.values()), min(classes.values())
    if maximum <= IMBALANCED * least:
        return []
    return [
        f"the most frequent class has {maximum:,} training examples and the rarest {least:,}; class_weights=balanced "
        "counts each class as much as another"
    ]


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
        """Return the prediction of a row of probabilities, one for each label."""
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
        """Return the label and its probability, with a tab between."""
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


def count_labels(examples: Sequence[LabelledExample]) -> dict[str, int]:
    """Return how often each label occurs; of a set on disk they are counted once."""
    return cache_value(examples, "labels", lambda: dict(Counter(_labels(examples))))


def _labels(examples: Sequence[LabelledExample]) -> Iterator[str]:
    return (
        examples.values("label")
        if isinstance(examples, CachedSet)
        else (example.label for example in examples)
    )


def describe_constant_accuracy(counts: Mapping[str, int]) -> str:
    """A line on the accuracy of the constant prediction of the most frequent label, with which a model's compares."""
    label = max(counts, key=lambda item: counts[item])
    return f"always {quote(label)} has an accuracy of {100 * counts[label] / sum(counts.values()):.4g}"


def log_constant_accuracy(counts: Mapping[str, int]) -> None:
    """Log `describe_constant_accuracy`, for an evaluation."""
    log.info(describe_constant_accuracy(counts))


def sort_labels(
    result: Iterable[str], train: str | None, start: str | None
) -> list[str]:
    """The labels of the training file, as `order_like_start` the run that training starts from.

    Raises:
        InputError: there is one class only, or the folder is no run.
    """
    labels = sorted(set(result))
    if len(labels) < 2:
        raise InputError(
            f"{train}: every label is {quote(labels[0])}; expected two classes or more"
        )
    return order_like_start(start, labels)


def order_like_start(start: str | None, labels: list[str]) -> list[str]:
    """The labels; where the run in the folder `start` has the same set, in its order. Raises InputError for a folder
    that is no run."""
    started = None if start is None else RunDirectory.open(Path(start))
    allowed: Any = (
        started.read_labels() if started is not None and started.has(LABELS) else []
    )
    return allowed if sorted(allowed) == labels else labels


def index_classes(
    labels: Sequence[str], examples: Sequence[LabelledExample]
) -> list[int]:
    """Return the class of each example.

    Raises:
        InputError: A class that the model was not trained on.
    """
    allowed = {label: number for number, label in enumerate(labels)}
    results = [allowed.get(label, -1) for label in _labels(examples)]
    if -1 in results:
        raise _unknown_class(examples[results.index(-1)], labels)
    return results


def _unknown_class(example: LabelledExample, labels: Sequence[str]) -> InputError:
    visible = ", ".join(map(shorten, labels[:SHOWN])) + (
        f" and {len(labels) - SHOWN} more" if len(labels) > SHOWN else ""
    )
    numbers = len(labels) > SHOWN and all(
        label.replace(".", "", 1).isdecimal() for label in labels
    )
    hint = "; numbers are learned by the recipe regression" if numbers else ""
    if example.label == NO_LABEL:
        hint = (
            "; train with --set data.ignore=-, which leaves such rows out of all sets"
        )
    return InputError(
        f"{example.place}: label {quote(example.label)} is none of the training set's: {visible}{hint}"
    )


def compute_class_weights(
    setting: ClassWeights, labels: Sequence[str], counts: Mapping[str, int]
) -> tuple[float, ...]:
    """Return the weight of each class in the loss, by the `counts` of its examples.

    None at all without a setting. `balanced` ones are examples / (classes x examples of
    the class), so that each class counts as much as another.

    Raises:
        InputError: A class without examples.
    """
    if setting is None:
        return ()
    if setting == "balanced":
        return tuple(
            sum(counts.values()) / (len(labels) * counts[label]) for label in labels
        )
    if unknown := sorted(setting.keys() - set(labels)):
        raise InputError(
            f"class_weights: {unknown[0]!r} is no class; expected of {', '.join(map(shorten, labels[:SHOWN]))}"
        )
    return tuple(setting.get(label, 1.0) for label in labels)


def compute_class_metrics(
    probabilities: Float[Tensor, "example class"], classes: Sequence[int]
) -> dict[str, float]:
    """accuracy: the share of right predictions.

    Macro-f1: the mean of the F1 of each class. Both in per cent.
    """
    predicted, right = probabilities.argmax(-1), torch.tensor(classes)
    scores = []
    for item in right.unique():
        pair = ((predicted == item) & (right == item)).sum()
        scores.append(2 * pair / ((predicted == item).sum() + (right == item).sum()))
    return {
        "accuracy": 100 * float((predicted == right).float().mean()),
        "macro-f1": 100 * float(torch.stack(scores).mean()),
    }
