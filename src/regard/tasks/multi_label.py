"""Any number of labels for each text or pair of texts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from regard.config.file_kinds import Kind
from regard.data.cache import cache_value
from regard.data.generated.sentences import Message, generate_topics
from regard.data.generated.synthetic import Synthetic
from regard.data.records import ITEM
from regard.data.splits import Splits
from regard.errors import InputError
from regard.models.catalog import build_classifier
from regard.models.classifier import Classifier
from regard.shapes import Bool, Float
from regard.storage.run_folder import RunDirectory
from regard.tasks.base import Setup
from regard.tasks.class_prediction import order_like_start
from regard.tasks.classification import command
from regard.tasks.classification.config import TextConfig
from regard.tasks.classification.data import Labelled, LabelledTables, Value
from regard.tasks.classification.run import TextRun
from regard.tasks.classification.training import LabelSummary, NamedOutputs, text_setup
from regard.tasks.prediction import ShortRepr, flat
from regard.tasks.summary import count_classes
from regard.tasks.task import LazyTask
from regard.tasks.tokenizers import TOKENIZER
from regard.text import Tokenizer

TASK = LazyTask(__name__, ":MultiLabel", ":setup", ":MultiLabelRun", command=command)

Labels = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class LabelSetTables(LabelledTables):
    """Tables as those of classification, where the column `label` has any number of labels: in JSON a list, else labels
    with the `separator` between them. A text without labels has an empty list or field.

    separator: The text between the labels of a row, where they are not a list.
    """

    separator: str = "|"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.separator:
            raise InputError(
                "data.separator is empty; expected the text between two labels, such as '|'"
            )

    recognised: ClassVar[tuple[Kind, ...]] = ("table",)
    example_type = Labelled[Labels]

    @property
    def list_columns(self) -> tuple[Value, ...]:
        """The column of the labels, which may be empty or a list."""
        return (self.label,)

    def parse_label(self, field: str, place: str) -> Labels:
        """Return the labels, each once, in alphabetical order."""
        parts = field.split(ITEM) if ITEM in field else field.split(self.separator)
        return tuple(sorted({part.strip() for part in parts if part.strip()}))


@dataclass(frozen=True, kw_only=True)
class Topics(Synthetic):
    """Generated messages about none to `most` of six topics, which are their labels."""

    kind: Literal["topics"] = "topics"
    train: int = 4_000
    valid: int = 300
    test: int = 500
    most: int = 3

    @property
    def second(self) -> None:
        """A message is one text."""

    def load(self) -> Splits[Labelled[Labels]]:
        """Generate all three sets.

        Raises:
            InputError: A number of topics that there are not.
        """
        return Splits(
            *map(label_messages, generate_topics(self.sizes, self.most, self.seed))
        )

    def tests(self) -> Sequence[Labelled[Labels]]:
        """Return the messages of the test set."""
        return self.load().test

    def read(self, path: str) -> Sequence[Labelled[Labels]]:
        """Return the rows of a table with the columns `text` and `label`.

        Raises:
            InputError: As `LabelSetTables.read`.
        """
        return LabelSetTables().read(path)

    def with_columns(
        self, names: str | None, *, skip_bad: bool = False
    ) -> "Topics | LabelSetTables":
        """The section itself, or one of tables with these columns, as `Tabular.with_columns`."""
        return (
            self
            if names is None and not skip_bad
            else LabelSetTables().with_columns(names, skip_bad=skip_bad)
        )


def label_messages(messages: Sequence[Message]) -> list[Labelled[Labels]]:
    """Return messages with their topics as labels."""
    return [
        Labelled((message.text,), message.topics, f"message {number}")
        for number, message in enumerate(messages, 1)
    ]


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
        """Return each label and its probability, with tabs between."""
        return [
            "\t".join(
                f"{flat(label)}\t{self.probabilities[label]:.4f}"
                for label in self.labels
            )
            or NONE
        ]

    def __str__(self) -> str:
        return (
            ", ".join(
                f"{label} {self.probabilities[label]:.4f}" for label in self.labels
            )
            or NONE
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"labels": list(self.labels), "probabilities": self.probabilities}


@dataclass(frozen=True)
class LabelOutputs(NamedOutputs[list[float], LabelsPrediction]):
    """A logit for each label, whose sigmoid is the label's probability.

    A text has the labels with a probability of at least `threshold`.
    """

    threshold: float

    problem, metric = "multi_label_classification", "micro-f1"

    @property
    def summary(self) -> str:
        return f"{len(self.labels)} labels"

    def targets(
        self, examples: Sequence[Labelled[tuple[str, ...]]]
    ) -> list[list[float]]:
        """1 for each label of a text and 0 for the others.

        Raises:
            InputError: A label that is not one of these.
        """
        allowed = {label: place for place, label in enumerate(self.labels)}
        results = []
        for example in examples:
            row = [0.0] * len(allowed)
            for label in example.label:
                if label not in allowed:
                    raise InputError(
                        f"{example.place}: label {label!r} is none of the training set's: {self._list_labels()}"
                    )
                row[allowed[label]] = 1.0
            results.append(row)
        return results

    def labels_of(self, examples: Sequence[Labelled[tuple[str, ...]]]) -> LabelSummary:
        """Return the labels with their counts."""
        counts = count_classes(label for example in examples for label in example.label)
        return LabelSummary(
            counts,
            "",
            ", ".join(examples[0].label) or NONE,
            tuple(_warnings(counts, self.labels)),
        )

    def loss(
        self, logits: Float[Tensor, "text output"], targets: Tensor, smoothing: float
    ) -> Float[Tensor, ""]:
        """Return the binary cross-entropy of each label, summed over the labels."""
        return functional.binary_cross_entropy_with_logits(
            logits, targets, reduction="sum"
        )

    def predictions(
        self, logits: Float[Tensor, "text output"]
    ) -> list[LabelsPrediction]:
        results = []
        for row in logits.sigmoid().tolist():
            ranked = dict(
                sorted(zip(self.labels, row, strict=True), key=lambda pair: -pair[1])
            )
            results.append(
                LabelsPrediction(
                    tuple(
                        label
                        for label, share in ranked.items()
                        if share >= self.threshold
                    ),
                    ranked,
                )
            )
        return results

    def metrics(
        self, logits: Float[Tensor, "text output"], targets: Sequence[list[float]]
    ) -> dict[str, float]:
        return label_metrics(
            logits.sigmoid() >= self.threshold, torch.tensor(targets) > 0.5
        )

    def explain(
        self, prediction: LabelsPrediction, logits: Float[Tensor, "1 output"]
    ) -> tuple[str, Float[Tensor, " 1"]]:
        """Return the log-probability of the most likely label."""
        first = next(iter(prediction.probabilities))
        return first, functional.logsigmoid(logits[:, self.labels.index(first)])

    def _list_labels(self) -> str:
        visible = ", ".join(self.labels[:20])
        return (
            f"{visible} and {len(self.labels) - 20} more"
            if len(self.labels) > 20
            else visible
        )


def label_metrics(
    predicted: Bool[Tensor, "text label"], expected: Bool[Tensor, "text label"]
) -> dict[str, float]:
    """micro-f1: the F1 of all decisions together.

    Macro-f1: the mean of the F1 of each label that a text has; exact-match: the share
    of texts with exactly their labels. All in per cent; an F1 without any label is 0.
    """
    pair, either = (predicted & expected).sum(0), predicted.sum(0) + expected.sum(0)
    present = expected.any(0)
    item = 2 * pair[present] / either[present]
    return {
        "micro-f1": 100 * float(2 * pair.sum() / either.sum().clamp(min=1)),
        "macro-f1": 100 * float(item.mean()) if len(item) else 0.0,
        "exact-match": 100 * float((predicted == expected).all(1).float().mean()),
    }


def _warnings(counts: Mapping[str, int], labels: Iterable[str]) -> list[str]:
    """Return labels that look like several with another separator."""
    for mark in ";|,":
        several = [label for label in labels if mark in label]
        if several and len(counts) > 1:
            return [
                f"the label {several[0]!r} may be several labels; set data.separator if {mark!r} stands between"
            ]
    return []


@dataclass(frozen=True, kw_only=True)
class MultiLabel(TextConfig):
    """A run file, whose labels are those that a text has of several.

    A text is predicted to have those with a probability of at least `threshold`.
    """

    task: Literal["multi-label"] = "multi-label"
    data: LabelSetTables | Topics
    threshold: Annotated[float, Field(gt=0, lt=1)] = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.training.label_smoothing:
            raise ValueError(
                "training.label_smoothing is for one class of several; leave it out"
            )


class MultiLabelRun(TextRun[LabelsPrediction]):
    """A trained model that predicts the labels of a text or a pair of texts."""

    def __init__(
        self,
        config: MultiLabel,
        model: Classifier,
        tokenizer: Tokenizer,
        labels: Sequence[str],
    ):
        self.labels, self.threshold = tuple(labels), config.threshold
        super().__init__(
            config, model, tokenizer, LabelOutputs(self.labels, config.threshold)
        )

    @classmethod
    def open(cls, run: RunDirectory, config: MultiLabel) -> "MultiLabelRun":
        """Return the run in a folder, its model with fresh weights.

        Raises:
            InputError: A damaged file.
        """
        tokenizer, labels = Tokenizer.load(run.file(TOKENIZER)), run.read_labels()
        return cls(
            config,
            build_classifier(config.classifier, tokenizer.size, len(labels)),
            tokenizer,
            labels,
        )

    def description(self) -> dict[str, Any]:
        return super().description() | {"classes": list(self.labels)}

    def convention(self) -> str | None:
        return f"a text has the labels with a probability of at least {self.threshold:g} (threshold in the run file)"


def setup(config: MultiLabel, folder: RunDirectory, processes: int) -> Setup:
    """Read the texts and build tokenizer, model and objective.

    A tokenizer in the folder is reused.

    Raises:
        InputError: the texts or the model are invalid, or no training text has a label.
    """
    splits = config.data.load()
    train = splits.train
    labels = cache_value(
        train,
        "labels of sets",
        lambda: sorted({label for item in train for label in item.label}),
    )
    if not labels:
        raise InputError(
            f"{config.data.train}: no text has a label; expected some in the column data.label"
        )
    labels = order_like_start(config.training.start, labels)
    return text_setup(
        config, folder, splits, LabelOutputs(tuple(labels), config.threshold)
    )
