"""The run file of regression, and its `data:` section."""

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from regard.errors import InputError
from regard.tasks.classification.config import TextConfig
from regard.tasks.classification.data import LabelledTables

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

    def notation(self, fields: Iterable[str]) -> Callable[[str], str]:
        """With points where the whole file has decimal commas, one of them certainly."""
        certain = False
        for field in fields:
            if not DECIMAL_COMMA.fullmatch(field.strip()):
                return str
            certain = certain or bool(NO_THOUSANDS.fullmatch(field.strip()))
        return _with_point if certain else str

    def label_of(self, field: str, place: str) -> float:
        """The number. Raises InputError for a field that is none."""
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
