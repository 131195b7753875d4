"""The output of a model that predicts a number: its scale, loss, predictions and metrics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev
from typing import Any

import torch
from torch import Tensor

from regard.errors import InputError
from regard.metrics.numbers import number_metrics
from regard.shapes import Float
from regard.storage.manifest import CHANGED
from regard.storage.run_folder import SCALE, RunDirectory
from regard.tasks.classification.data import Labelled
from regard.tasks.classification.outputs import Labels, Outputs
from regard.tasks.prediction import ShortRepr


@dataclass(frozen=True, repr=False)
class NumberPrediction(ShortRepr):
    """A predicted number."""

    number: float

    @property
    def text(self) -> str:
        """Six digits of the number."""
        return f"{self.number:.6g}"

    def lines(self) -> list[str]:
        """The number."""
        return [self.text]

    def __str__(self) -> str:
        return f"predicted number: {self.text}"

    def to_json(self) -> dict[str, Any]:
        """Six digits of the number."""
        return {"prediction": float(self.text)}


@dataclass(frozen=True)
class NumberOutput(Outputs[float, NumberPrediction]):
    """One output z, which predicts `mean + deviation z`: so models begin near the labels, whatever their unit."""

    mean: float
    deviation: float

    problem, metric, higher_is_better = "regression", "mean-squared-error", False

    @classmethod
    def of(cls, numbers: Sequence[float]) -> "NumberOutput":
        """The output for labels of this mean and deviation."""
        return cls(fmean(numbers), pstdev(numbers))

    @classmethod
    def read(cls, run: RunDirectory) -> "NumberOutput":
        """The output of a run. Raises InputError for a damaged file."""
        found = run.read_object(SCALE)
        if found.keys() != {"mean", "deviation"} or not all(
            isinstance(each, int | float) for each in found.values()
        ):
            raise InputError(
                f"{run.path / SCALE}: has no mean and deviation, {CHANGED}"
            )
        return cls(**found)

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
        return [each.label for each in examples]

    def labels_of(self, examples: Sequence[Labelled[float]]) -> Labels:
        """The range and the mean of the numbers."""
        numbers = [each.label for each in examples]
        return Labels(
            numbers=f"{min(numbers):.4g} to {max(numbers):.4g}, mean {fmean(numbers):.4g}"
        )

    def loss(
        self, logits: Float[Tensor, "text output"], targets: Tensor, smoothing: float
    ) -> Float[Tensor, ""]:
        """The squared error in units of the deviation."""
        return (logits[:, 0] - (targets - self.mean) / self.deviation).square().sum()

    def predictions(
        self, logits: Float[Tensor, "text output"]
    ) -> list[NumberPrediction]:
        return [NumberPrediction(each) for each in self._numbers(logits).tolist()]

    def metrics(
        self, logits: Float[Tensor, "text output"], targets: Sequence[float]
    ) -> dict[str, float]:
        """Correlations and errors, as `number_metrics`."""
        return number_metrics(
            self._numbers(logits), torch.tensor(targets, dtype=torch.float64)
        )

    def explained(
        self, prediction: NumberPrediction, logits: Float[Tensor, "1 output"]
    ) -> tuple[str, Float[Tensor, " 1"]]:
        """The number."""
        return prediction.text, self._numbers(logits)

    def _numbers(self, logits: Float[Tensor, "text output"]) -> Float[Tensor, " text"]:
        return self.mean + self.deviation * logits[:, 0].double()
