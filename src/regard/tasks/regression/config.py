"""The run file of regression, and its `data:` section."""

import math
from dataclasses import dataclass
from typing import Literal

from regard.errors import InputError
from regard.tasks.classification.config import TextConfig
from regard.tasks.classification.data import LabelledTables


@dataclass(frozen=True, kw_only=True)
class NumberTables(LabelledTables):
    """Tables as those of classification, with a number in the column `label`."""

    def label_of(self, field: str, place: str) -> float:
        """The number. Raises InputError for a field that is none."""
        try:
            number = float(field)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise InputError(f"{place}: label {field!r} is no number; expected one such as 3.5")
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
