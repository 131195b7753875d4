"""Any number of labels for each text or pair of texts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from regard.data.cache import cache_value
from regard.data.generated.pairs import (
    Size,
    SizeOrNone,
    Synthetic,
    disjoint_sets,
)
from regard.data.generated.sentences import CLAUSES, make_message
from regard.data.records import ITEM
from regard.data.rows import Row
from regard.data.splits import Splits
from regard.errors import InputError
from regard.models.sizes import Fraction
from regard.shapes import Float
from regard.storage.run_folder import RunDirectory
from regard.tasks.base import Setup
from regard.tasks.class_prediction import (
    label_metrics,
    list_labels,
    order_like_start,
    rank_labels,
)
from regard.tasks.classification.data import Column, Labelled, LabelledTables
from regard.tasks.classification.inputs import TextConfig
from regard.tasks.classification.run import (
    Logits,
    Outputs,
    OutputsRun,
    text_setup,
)
from regard.tasks.options import Json, ShortRepr, flat
from regard.tasks.run import Task
from regard.tasks.summary import count_classes

SWITCHES = {"1": 1, "1.0": 1, "true": 1, "0": 0, "0.0": 0, "false": 0}
"""What a column of one label may hold."""
NONE = "(none)"
"""What stands for no label."""
Labels = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class LabelSetTables(LabelledTables):
    """Tables as those of classification, with any number of labels in a row.

    In JSON `label` may be a list. A text without labels has an empty list or field. Or
    `label` names a column of 0 and 1 for each label.
    """

    label: Column | tuple[Column, ...] = "label"  # pyright: ignore[reportIncompatibleVariableOverride]

    separator: Annotated[str, Field(min_length=1)] = "|"
    """The text between the labels of a row, where they are not a list."""

    example_type = Labelled[Labels]
    has_label_columns = True

    @property
    def list_columns(self) -> tuple[Column, ...]:
        """The column of the labels, which may be empty or a list."""
        return () if isinstance(self.label, tuple) else (self.label,)

    @property
    def number_columns(self) -> tuple[Column, ...]:
        """The columns that may hold numbers in JSON."""
        return self.label if isinstance(self.label, tuple) else (self.label,)

    @property
    def columns(self) -> dict[str, Column]:
        """The columns that are read, by their keys."""
        columns: dict[str, Any] = super().columns
        if isinstance(self.label, tuple):
            names = columns.pop("label")
            columns |= {f"label[{n}]": name for n, name in enumerate(names)}
        return columns

    def parse(self, row: Row) -> Labelled[Labels] | None:
        """Return the example of a row.

        Raises:
            InputError: A column of a label has no 0 or 1.
        """
        if isinstance(self.label, tuple):
            *cells, text = row.fields
            first = len(cells) - len(self.label)
            flags = [SWITCHES.get(field.strip().lower()) for field in cells[first:]]
            if None in flags:
                raise InputError(
                    f"the columns of labels have {', '.join(cells[first:])}; expected 0 "
                    "or 1 in each"
                )
            names = [f"{name}{ITEM}" for name in compress(self.label, flags)]
            row = replace(row, fields=(*cells[:first], "".join(names), text))
        return super().parse(row)

    def parse_label(self, field: str, place: str) -> Labels:
        """Return the labels, each once, in alphabetical order."""
        parts = field.split(ITEM if ITEM in field else self.separator)
        return tuple(sorted({part.strip() for part in parts if part.strip()}))


@dataclass(frozen=True, kw_only=True)
class Topics(Synthetic):
    """Generated messages about none to `most` of six topics, which are their labels."""

    kind: Literal["topics"] = "topics"
    train: Size = 4_000
    valid: Size = 300
    test: SizeOrNone = 500
    most: Annotated[int, Field(ge=1, le=len(CLAUSES))] = 3

    second: ClassVar[None] = None

    def load(self) -> Splits[Labelled[Labels]]:
        """Generate all three sets."""
        sets = disjoint_sets(
            self.sizes,
            self.seed,
            lambda part, random: make_message(self.most, random),
            self.kind,
        )
        return Splits(
            *(
                [
                    Labelled((message.text,), message.topics, f"message {number}")
                    for number, message in enumerate(messages, 1)
                ]
                for messages in sets
            )
        )

    def tests(self) -> Sequence[Labelled]:
        """Return the messages of the test set."""
        return self.load().test

    def with_columns(
        self, names: str | None, *, skip_bad: bool = False
    ) -> LabelSetTables:
        """Return the section of tables with these columns, by default text and label."""
        return LabelSetTables().with_columns(names, skip_bad=skip_bad)


@dataclass(frozen=True, repr=False)
class LabelsPrediction(ShortRepr):
    """The labels of a text, and the probability of every label, the most likely first."""

    labels: Labels
    probabilities: dict[str, float]

    @property
    def text(self) -> str:
        """The labels with commas between."""
        return ", ".join(self.labels) or NONE

    def lines(self) -> list[str]:
        """Return each label and its probability, with tabs between."""
        pairs = (
            f"{flat(name)}\t{self.probabilities[name]:.4f}" for name in self.labels
        )
        return ["\t".join(pairs) or NONE]

    def __str__(self) -> str:
        return self.lines()[0].replace("\t", " ")

    def to_json(self) -> Json:
        """Return plain values for JSON."""
        return {"labels": list(self.labels), "probabilities": self.probabilities}


@dataclass(frozen=True)
class LabelOutputs(Outputs):
    """A logit for each label, whose sigmoid is the label's probability."""

    labels: Labels
    threshold: float
    """The least probability of a label that a text has."""

    problem, metric = "multi_label_classification", "micro-f1"

    @property
    def summary(self) -> str:
        return f"{len(self.labels)} labels"

    def targets(self, examples: Sequence[Labelled]) -> list[list[float]]:
        """Return 1 for each label of a text and 0 for the others.

        Raises:
            InputError: A label is unknown.
        """
        for example in examples:
            if unknown := [name for name in example.label if name not in self.labels]:
                raise InputError(
                    f"{example.place}: label {unknown[0]!r} is none of the training "
                    f"set's: {list_labels(self.labels)}"
                )
        return [
            [float(label in example.label) for label in self.labels]
            for example in examples
        ]

    def describe(self, examples: Sequence[Labelled]) -> Json:
        """Return the labels with their counts, and one that looks like several."""
        counts = count_classes(label for item in examples for label in item.label)
        warnings = [
            f"the label {label!r} may be several labels; set data.separator if {mark!r} "
            "stands between"
            for mark in ";|,"
            for label in self.labels
            if mark in label and len(counts) > 1
        ]
        if {*self.labels} <= {"0", "1"}:
            warnings.append(
                "the labels are named 0 and 1; if each label has a column of its own, "
                "name them with --set 'data.label=[A, B]'"
            )
        return {"classes": counts, "warnings": warnings[:1]}

    def loss(
        self, logits: Logits, targets: Tensor, smoothing: float
    ) -> Float[Tensor, ""]:
        """Return the sum of the binary cross-entropies of the labels."""
        return functional.binary_cross_entropy_with_logits(
            logits, targets, reduction="sum"
        )

    def predictions(self, logits: Logits) -> list[LabelsPrediction]:
        results = []
        for row in logits.sigmoid().tolist():
            ranked = rank_labels(self.labels, row)
            chosen = [name for name in ranked if ranked[name] >= self.threshold]
            results.append(LabelsPrediction(tuple(chosen), ranked))
        return results

    def score(self, logits: Logits) -> Logits:
        return functional.logsigmoid(logits)

    def metrics(
        self, logits: Logits, targets: Sequence[list[float]]
    ) -> dict[str, float]:
        predicted = logits.sigmoid() >= self.threshold
        return label_metrics(predicted, torch.tensor(targets) > 0.5)

    def explain(
        self, prediction: LabelsPrediction, logits: Logits
    ) -> tuple[str, Float[Tensor, "1"]]:
        """Return the log-probability of the most likely label."""
        label = next(iter(prediction.probabilities))
        return label, functional.logsigmoid(logits[:, self.labels.index(label)])


@dataclass(frozen=True, kw_only=True)
class MultiLabel(TextConfig):
    """A run file whose labels are those that a text has of several."""

    task: Literal["multi-label"] = "multi-label"
    data: LabelSetTables | Topics
    threshold: Fraction = 0.5
    """The least probability of a label that a text is predicted to have."""


class MultiLabelRun(OutputsRun[LabelsPrediction]):
    """A trained model that predicts the labels of a text or a pair of texts."""

    does = "Chooses the labels of a text, or of two texts."
    config: MultiLabel

    @classmethod
    def load_outputs(cls, folder: RunDirectory, config: Any) -> LabelOutputs:
        return LabelOutputs(tuple(folder.read_labels()), config.threshold)

    def convention(self) -> str:
        threshold = f"{self.config.threshold:g} (threshold in the run file)"
        return f"a text has the labels with a probability of at least {threshold}"


def setup(config: MultiLabel, folder: RunDirectory, processes: int) -> Setup:
    """Read the texts and build tokenizer, model and objective.

    Raises:
        InputError: The texts or the model are invalid, or no training text has a label.
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
            f"{config.data.train}: no text has a label; expected some in the column "
            "data.label"
        )
    labels = order_like_start(config.training.start, labels)
    outputs = LabelOutputs(tuple(labels), config.threshold)
    return text_setup(config, folder, splits, outputs)


TASK = Task(MultiLabel, setup, MultiLabelRun, command="")
