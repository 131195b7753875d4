"""The run file of texts with several labels."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from regard.tasks.classification.config import TextConfig
from regard.tasks.multi_label.data import LabelSetTables, Topics


@dataclass(frozen=True, kw_only=True)
class MultiLabel(TextConfig):
    """A run file, whose labels are those that a text has of several. A text is predicted to have those with a
    probability of at least `threshold`."""

    task: Literal["multi-label"] = "multi-label"
    data: LabelSetTables | Topics
    threshold: Annotated[float, Field(gt=0, lt=1)] = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.training.label_smoothing:
            raise ValueError(
                "training.label_smoothing is for one class of several; leave it out"
            )
