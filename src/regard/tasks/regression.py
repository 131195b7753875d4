"""A number for each text or pair of texts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any, Literal

import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from regard.errors import InputError
from regard.metrics import Metrics, number_metrics
from regard.shapes import Float
from regard.storage.run_folder import SCALE, RunDirectory
from regard.storage.verified_files import CHANGED
from regard.tasks.base import Setup
from regard.tasks.classification.data import Labelled, LabelledTables
from regard.tasks.classification.inputs import TextConfig
from regard.tasks.classification.run import (
    Logits,
    Outputs,
    OutputsRun,
    text_setup,
)
from regard.tasks.options import Json, ShortRepr
from regard.tasks.run import Task


@dataclass(frozen=True, kw_only=True)
class NumberTables(LabelledTables):
    """Tables as those of classification, with a number in the column `label`."""

    example_type = Labelled[float]

    def parse_label(self, field: str, place: str) -> float:
        """Return the number in the field of a row.

        Raises:
            InputError: There is none.
        """
        try:
            number = float(field)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise InputError(
                f"{place}: label {field!r} is not a number; expected one such as 3.5"
            )
        return number


@dataclass(frozen=True, kw_only=True)
class Regression(TextConfig):
    """A run file whose labels are numbers."""

    task: Literal["regression"] = "regression"
    data: NumberTables


@dataclass(frozen=True, repr=False)
class NumberPrediction(ShortRepr):
    """A predicted number."""

    number: float

    @property
    def text(self) -> str:
        """Six digits of the number."""
        return f"{self.number:.6g}"

    def __str__(self) -> str:
        return f"predicted number: {self.text}"

    def to_json(self) -> Json:
        """Return six digits of the number."""
        return {"prediction": float(self.text)}


@dataclass(frozen=True)
class NumberOutput(Outputs):
    """One output z, which predicts `mean + deviation z` of the training labels.

    So models begin near the labels, whatever their unit.
    """

    mean: float
    deviation: float

    problem, metric, higher_is_better = "regression", "mean-squared-error", False
    labels = ()

    @classmethod
    def read(cls, run: RunDirectory) -> "NumberOutput":
        """Read the output of a run.

        Raises:
            InputError: The file is damaged.
        """
        try:
            return TypeAdapter(cls).validate_python(run.read_object(SCALE))
        except ValidationError:
            message = f"{run.path / SCALE}: has no mean and deviation, {CHANGED}"
            raise InputError(message) from None

    @property
    def files(self) -> Json:
        return {SCALE: {"mean": self.mean, "deviation": self.deviation}}

    @property
    def summary(self) -> str:
        deviation = f"standard deviation {self.deviation:.4g}"
        return f"numbers of mean {self.mean:.4g} and {deviation}"

    def targets(self, examples: Sequence[Labelled]) -> list[float]:
        return [example.label for example in examples]

    def describe(self, examples: Sequence[Labelled]) -> Json:
        numbers = self.targets(examples)
        mean = fmean(numbers)
        return {"labels": f"{min(numbers):.4g} to {max(numbers):.4g}, mean {mean:.4g}"}

    def loss(
        self, logits: Logits, targets: Tensor, smoothing: float
    ) -> Float[Tensor, ""]:
        """Return the squared error in units of the deviation."""
        return (logits[:, 0] - (targets - self.mean) / self.deviation).square().sum()

    def predictions(self, logits: Logits) -> list[NumberPrediction]:
        return [NumberPrediction(number) for number in self._numbers(logits).tolist()]

    def score(self, logits: Logits) -> Logits:
        return self._numbers(logits)[:, None]

    def metrics(self, logits: Logits, targets: Sequence[float]) -> Metrics:
        """Return correlations and errors, as `number_metrics`."""
        expected = torch.tensor(targets, dtype=torch.float64)
        return number_metrics(self._numbers(logits), expected)

    def explain(
        self, prediction: NumberPrediction, logits: Logits
    ) -> tuple[str, Float[Tensor, "1"]]:
        """Return the number."""
        return prediction.text, self._numbers(logits)

    def _numbers(self, logits: Logits) -> Float[Tensor, " text"]:
        return self.mean + self.deviation * logits[:, 0].double()


class RegressionRun(OutputsRun[NumberPrediction]):
    """A trained model that predicts the number of a text or a pair of texts."""

    does = "Predicts a number for a text, or for two texts."

    @classmethod
    def load_outputs(cls, folder: RunDirectory, config: Any) -> NumberOutput:
        return NumberOutput.read(folder)


def setup(config: Regression, folder: RunDirectory, processes: int) -> Setup:
    """Read the texts and build tokenizer, model and objective.

    The scale of the numbers is that of a run which training starts from.

    Raises:
        InputError: The texts, the numbers or the model are invalid.
    """
    splits = config.data.load()
    numbers = [example.label for example in splits.train]
    if min(numbers) == max(numbers):
        raise InputError(
            f"{config.data.train}: every label is {numbers[0]:g}; expected different "
            "numbers"
        )
    output = NumberOutput(fmean(numbers), pstdev(numbers))
    start = config.training.start
    if start is not None and (run := RunDirectory.open(Path(start))).has(SCALE):
        output = NumberOutput.read(run)
    return text_setup(config, folder, splits, output)


TASK = Task(Regression, setup, RegressionRun, command="")
