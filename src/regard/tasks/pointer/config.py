"""The run file of a pointer network."""

from dataclasses import dataclass, field
from typing import Literal

from regard.decoding.search import Search
from regard.models.pointer_network import PointerNetworkConfig
from regard.tasks.pointer.data import ConvexHull, Sorting
from regard.training.settings import Training


@dataclass(frozen=True, kw_only=True)
class Pointer:
    """A run file. A batch has room for `training.batch_tokens` elements."""

    task: Literal["pointer"] = "pointer"
    data: Sorting | ConvexHull
    model: PointerNetworkConfig = field(default_factory=PointerNetworkConfig)
    training: Training = field(default_factory=Training)
    search: Search = field(default_factory=Search)

    def __post_init__(self) -> None:
        if self.data.most > self.model.max_elements:
            raise ValueError(
                f"data.most is {self.data.most}, more than model.max_elements, {self.model.max_elements}; raise that"
            )
        if self.training.label_smoothing:
            raise ValueError(
                "training.label_smoothing is for words; places cannot be smoothed, set it to 0"
            )
