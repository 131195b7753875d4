"""The meaning of a text model's outputs: classes here; numbers and several labels in their own rooms."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from torch import Tensor
from torch.nn import functional

from regard.attribution.gradients import log_probabilities_of
from regard.shapes import Float
from regard.storage.run_folder import LABELS
from regard.tasks.class_prediction import (
    ClassPrediction,
    class_indices,
    class_metrics,
    label_counts,
)
from regard.tasks.classification.batch import Target
from regard.tasks.classification.data import Labelled
from regard.tasks.label_checks import imbalance, label_warnings
from regard.tasks.prediction import Prediction
from regard.tasks.summary import most_common


@dataclass(frozen=True)
class Labels:
    """The labels of training examples: how often each class occurs or what the numbers are, the first one, and what is
    probably not meant."""

    counts: Mapping[str, int] = field(default_factory=dict)
    numbers: str = ""
    first: str = ""
    warnings: tuple[str, ...] = ()


T = TypeVar("T", bound=Target)
P = TypeVar("P", bound=Prediction)


class Outputs(ABC, Generic[T, P]):
    """The targets, loss, predictions and metrics of logits `(text, output)`.

    problem: the name of such outputs in published configurations, transformers' `problem_type`.
    metric, higher_is_better: the metric that chooses the best weights.
    """

    problem: str
    metric: str
    higher_is_better = True

    @property
    @abstractmethod
    def count(self) -> int:
        """The number of outputs."""

    @property
    @abstractmethod
    def files(self) -> Mapping[str, Any]:
        """What the run keeps of them, by the names of JSON files."""

    @property
    @abstractmethod
    def summary(self) -> str:
        """A phrase for the log."""

    @abstractmethod
    def targets(self, examples: Sequence[Labelled[Any]]) -> list[T]:
        """The target of each example. Raises InputError for one that the model cannot predict."""

    def labels_of(self, examples: Sequence[Labelled[Any]]) -> Labels:
        """What the summary of the data says of the labels of training examples."""
        return Labels()

    @abstractmethod
    def loss(
        self, logits: Float[Tensor, "text output"], targets: Tensor, smoothing: float
    ) -> Float[Tensor, ""]:
        """The loss, summed over the texts; `smoothing` is that of the targets."""

    @abstractmethod
    def predictions(self, logits: Float[Tensor, "text output"]) -> list[P]:
        """The prediction for each text."""

    @abstractmethod
    def metrics(
        self, logits: Float[Tensor, "text output"], targets: Sequence[T]
    ) -> dict[str, float]:
        """The metrics of at least one text."""

    @abstractmethod
    def explained(
        self, prediction: P, logits: Float[Tensor, "1 output"]
    ) -> tuple[str, Float[Tensor, " 1"]]:
        """The part of a prediction that a gradient explains: its name, and its value, a function of the logits."""


@dataclass(frozen=True)
class NamedOutputs(Outputs[T, P]):
    """A logit for each of these labels."""

    labels: tuple[str, ...]

    @property
    def count(self) -> int:
        return len(self.labels)

    @property
    def files(self) -> Mapping[str, Any]:
        return {LABELS: list(self.labels)}


@dataclass(frozen=True)
class ClassOutputs(NamedOutputs[int, ClassPrediction]):
    """A logit for each of several classes of which a text has one. `weights` are those of the classes in the loss; none
    are all 1."""

    weights: tuple[float, ...] = ()

    problem, metric = "single_label_classification", "accuracy"

    @property
    def summary(self) -> str:
        return f"{len(self.labels)} classes"

    def targets(self, examples: Sequence[Labelled[str]]) -> list[int]:
        return class_indices(self.labels, examples)

    def labels_of(self, examples: Sequence[Labelled[str]]) -> Labels:
        """The classes with their counts, and labels that are probably no classes."""
        classes = most_common(label_counts(examples))
        warnings = label_warnings(classes, examples[0].label)
        return Labels(
            classes,
            "",
            examples[0].label,
            (*warnings, *([] if self.weights else imbalance(classes))),
        )

    def loss(
        self, logits: Float[Tensor, "text output"], targets: Tensor, smoothing: float
    ) -> Float[Tensor, ""]:
        """The weighted cross-entropy of the classes."""
        weights = logits.new_tensor(self.weights) if self.weights else None
        return functional.cross_entropy(
            logits, targets, weights, reduction="sum", label_smoothing=smoothing
        )

    def predictions(
        self, logits: Float[Tensor, "text output"]
    ) -> list[ClassPrediction]:
        return [
            ClassPrediction.of(self.labels, row) for row in logits.softmax(-1).tolist()
        ]

    def metrics(
        self, logits: Float[Tensor, "text output"], targets: Sequence[int]
    ) -> dict[str, float]:
        """Accuracy and macro-averaged F1, in per cent."""
        return class_metrics(logits.softmax(-1), targets)

    def explained(
        self, prediction: ClassPrediction, logits: Float[Tensor, "1 output"]
    ) -> tuple[str, Float[Tensor, " 1"]]:
        """The log-probability of the most likely class."""
        return prediction.label, log_probabilities_of(
            logits, [self.labels.index(prediction.label)]
        )
