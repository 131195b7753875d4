"""The run file of an algorithmic task."""

from dataclasses import dataclass, field
from typing import Literal

from regard.models.turing_machine import TuringMachineConfig
from regard.tasks.algorithmic.data import Copy, Recall, RepeatCopy
from regard.training.settings import Training


@dataclass(frozen=True, kw_only=True)
class Algorithmic:
    """A run file. A batch has room for `training.batch_tokens` steps."""

    task: Literal["algorithmic"] = "algorithmic"
    data: Copy | RepeatCopy | Recall
    model: TuringMachineConfig = field(default_factory=TuringMachineConfig)
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        if self.training.label_smoothing:
            raise ValueError(
                "training.label_smoothing is for words; bits are not smoothed, set it to 0"
            )
