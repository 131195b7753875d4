"""A number for each text or pair of texts."""

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any, Literal

import torch
from torch import Tensor

from regard.data.records import Records
from regard.data.rows import Row
from regard.errors import InputError
from regard.metrics import number_metrics
from regard.models.catalog import build_classifier
from regard.models.classifier import Classifier
from regard.shapes import Float
from regard.storage.manifest import CHANGED
from regard.storage.run_folder import SCALE, RunDirectory
from regard.tasks.base import Setup
from regard.tasks.classification import command
from regard.tasks.classification.config import TextConfig
from regard.tasks.classification.data import Labelled, LabelledTables
from regard.tasks.classification.run import TextRun
from regard.tasks.classification.training import LabelSummary, Outputs, text_setup
from regard.tasks.prediction import Prediction, ShortRepr
from regard.tasks.task import LazyTask
from regard.tasks.tokenizers import TOKENIZER
from regard.text import Tokenizer

TASK = LazyTask(__name__, ":Regression", ":setup", ":RegressionRun", command=command)

DECIMAL_COMMA = re.compile(r"[+-]?\d+(,\d+)?")
"""A number with a decimal comma, as spreadsheets of many languages write it, or a whole one."""
NO_THOUSANDS = re.compile(r"[+-]?(0,\d+|\d+,(\d{1,2}|\d{4,}))")
"""A number whose comma is certainly none of thousands."""
THOUSANDS = re.compile(r"[+-]?\d{1,3}([.,' ]\d{3})+([.,]\d+)?")
"""A number whose digits are probably in groups of three."""


def _with_point(field: str) -> str:
    return field.strip().replace(",", ".")


@dataclass(frozen=True, kw_only=True)
class NumberTables(LabelledTables):
    """Tables as those of classification, with a number in the column `label`."""

    example_type = Labelled[float]

    def parser(self, path: Any) -> Callable[[Row], Labelled[Any] | None]:
        """Return what parses rows, with decimal commas where the whole file has them."""
        if not self._has_decimal_commas(path):
            return self.parse

        def parse(row: Row) -> Labelled[Any] | None:
            *second, label, text = row.fields
            fields = (*second, _with_point(label), text)
            return self.parse(replace(row, fields=fields))

        return parse

    def _has_decimal_commas(self, path: Any) -> bool:
        """Return whether each label may have a decimal comma, and one certainly has."""
        if not isinstance(path, Records) and not os.path.exists(path):
            return False
        certain = False
        rows = self.streamed(path, self.row_columns, self.number_columns)
        for row in rows:
            label = row.fields[-2].strip()
            if label == self.ignore:
                continue
            if not DECIMAL_COMMA.fullmatch(label):
                return False
            certain = certain or bool(NO_THOUSANDS.fullmatch(label))
        return certain

    def parse_label(self, field: str, place: str) -> float:
        """Return the number in the field of a row.

        Raises:
            InputError: Another one.
        """
        try:
            number = float(field)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            grouped = (
                ", without a separator of thousands"
                if THOUSANDS.fullmatch(field.strip())
                else ""
            )
            raise InputError(
                f"{place}: label {field!r} is no number; expected one such as 3.5 or 3,5{grouped}"
            )
        return number


@dataclass(frozen=True, kw_only=True)
class Regression(TextConfig):
    """A run file, whose labels are numbers."""

    task: Literal["regression"] = "regression"
    data: NumberTables

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.training.label_smoothing:
            raise ValueError(
                "training.label_smoothing is for classes, and a regression predicts a number; leave it out"
            )


@dataclass(frozen=True, repr=False)
class NumberPrediction(ShortRepr):
    """A predicted number."""

    number: float

    @property
    def text(self) -> str:
        """Six digits of the number."""
        return f"{self.number:.6g}"

    def lines(self) -> list[str]:
        """Return the number."""
        return [self.text]

    def __str__(self) -> str:
        return f"predicted number: {self.text}"

    def to_json(self) -> dict[str, Any]:
        """Six digits of the number."""
        return {"prediction": float(self.text)}


@dataclass(frozen=True)
class NumberOutput(Outputs[float, NumberPrediction]):
    """One output z, which predicts `mean + deviation z`.

    So models begin near the labels, whatever their unit.
    """

    mean: float
    deviation: float

    problem, metric, higher_is_better = "regression", "mean-squared-error", False

    @classmethod
    def of(cls, numbers: Sequence[float]) -> "NumberOutput":
        """Return the output for labels of this mean and deviation."""
        return cls(fmean(numbers), pstdev(numbers))

    @classmethod
    def read(cls, run: RunDirectory) -> "NumberOutput":
        """Return the output of a run.

        Raises:
            InputError: A damaged file.
        """
        result = run.read_object(SCALE)
        if result.keys() != {"mean", "deviation"} or not all(
            isinstance(item, int | float) for item in result.values()
        ):
            raise InputError(
                f"{run.path / SCALE}: has no mean and deviation, {CHANGED}"
            )
        return cls(**result)

    @property
    def count(self) -> int:
        return 1

    @property
    def files(self) -> Mapping[str, Any]:
        return {SCALE: {"mean": self.mean, "deviation": self.deviation}}

    @property
    def summary(self) -> str:
        return f"numbers of mean {self.mean:.4g} and standard deviation {self.deviation:.4g}"

    def targets(self, examples: Sequence[Labelled[float]]) -> list[float]:
        return [example.label for example in examples]

    def labels_of(self, examples: Sequence[Labelled[float]]) -> LabelSummary:
        """Return the range and the mean of the numbers."""
        numbers = [example.label for example in examples]
        return LabelSummary(
            numbers=f"{min(numbers):.4g} to {max(numbers):.4g}, mean {fmean(numbers):.4g}"
        )

    def loss(
        self, logits: Float[Tensor, "text output"], targets: Tensor, smoothing: float
    ) -> Float[Tensor, ""]:
        """Return the squared error in units of the deviation."""
        return (logits[:, 0] - (targets - self.mean) / self.deviation).square().sum()

    def predictions(
        self, logits: Float[Tensor, "text output"]
    ) -> list[NumberPrediction]:
        return [NumberPrediction(item) for item in self._numbers(logits).tolist()]

    def metrics(
        self, logits: Float[Tensor, "text output"], targets: Sequence[float]
    ) -> dict[str, float]:
        """Return correlations and errors, as `number_metrics`."""
        return number_metrics(
            self._numbers(logits), torch.tensor(targets, dtype=torch.float64)
        )

    def explain(
        self, prediction: NumberPrediction, logits: Float[Tensor, "1 output"]
    ) -> tuple[str, Float[Tensor, " 1"]]:
        """Return the number."""
        return prediction.text, self._numbers(logits)

    def _numbers(self, logits: Float[Tensor, "text output"]) -> Float[Tensor, " text"]:
        return self.mean + self.deviation * logits[:, 0].double()


class RegressionRun(TextRun[NumberPrediction]):
    """A trained model that predicts the number of a text or a pair of texts."""

    def __init__(
        self,
        config: Regression,
        model: Classifier,
        tokenizer: Tokenizer,
        output: NumberOutput,
    ):
        super().__init__(config, model, tokenizer, output)
        self.column = config.data.label

    @classmethod
    def open(cls, run: RunDirectory, config: Regression) -> "RegressionRun":
        """Return the run in a folder, its model with fresh weights.

        Raises:
            InputError: A damaged file.
        """
        tokenizer, output = Tokenizer.load(run.file(TOKENIZER)), NumberOutput.read(run)
        return cls(
            config,
            build_classifier(config.classifier, tokenizer.size, output.count),
            tokenizer,
            output,
        )

    def make_title(self, prediction: Prediction) -> str:
        """The number with the name of its column, or as a predicted number where the name says nothing."""
        if isinstance(self.column, int) or self.column == "label":
            return str(prediction)
        return f"predicted {self.column.replace('_', ' ')}: {prediction.text}"


def setup(config: Regression, folder: RunDirectory, processes: int) -> Setup:
    """Read the texts and build tokenizer, model and objective.

    A tokenizer in the folder is reused, and the scale of the numbers of a run that
    training starts from.

    Raises:
        InputError: the texts, the numbers or the model are invalid.
    """
    splits = config.data.load()
    numbers = [item.label for item in splits.train]
    if min(numbers) == max(numbers):
        raise InputError(
            f"{config.data.train}: every label is {numbers[0]:g}; expected different numbers"
        )
    start = (
        None
        if config.training.start is None
        else RunDirectory.open(Path(config.training.start))
    )
    retained = start is not None and start.has(SCALE)
    output = (
        NumberOutput.read(start)
        if start is not None and retained
        else NumberOutput.of(numbers)
    )
    return text_setup(config, folder, splits, output)
