"""The run file of a model and an objective that exist in Python only."""

from dataclasses import dataclass, field
from typing import Literal

from regard.training.settings import Training


@dataclass(frozen=True, kw_only=True)
class CustomData:
    """The numbers of training and validation examples; the run file holds none of them."""

    train: int
    valid: int


@dataclass(frozen=True, kw_only=True)
class CustomModel:
    """The name of the model's class, for readers; a run folder never imports it."""

    name: str


@dataclass(frozen=True, kw_only=True)
class Custom:
    """A run of `regard.fit`."""

    task: Literal["custom"] = "custom"
    data: CustomData
    model: CustomModel
    training: Training = field(default_factory=Training)
