"""A batch of episodes."""

from dataclasses import dataclass

from torch import Tensor

from regard.data.batch import Batch
from regard.shapes import Float, Int


@dataclass(frozen=True)
class EpisodeBatch(Batch):
    """Images, those behind the labelled ones being asked about, the labels of the others, and the answers."""

    images: Float[Tensor, "batch image channel height width"]
    labels: Int[Tensor, "batch shown"]
    classes: Int[Tensor, "batch asked"]
