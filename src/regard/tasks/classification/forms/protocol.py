"""What every form is."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

from regard.data.class_batch import ClassBatch
from regard.data.labelled import Labelled
from regard.maps import Alignment, DocumentWeights
from regard.maps.heads import Side
from regard.recording import Maps

E = TypeVar("E")


class Form(ABC, Generic[E]):
    """How texts become what a kind of model is given."""

    listens: str | None = None
    """The names of the modules whose weights say what was looked at; None: there are none to show."""
    several: bool = False
    """Whether layers and heads have a map each, of which some can be chosen."""

    @abstractmethod
    def encoded(self, example: Labelled) -> E:
        """What is kept of an example. Raises InputError for one that the model cannot take."""

    @abstractmethod
    def positions(self, encoded: E) -> int:
        """How much room it takes in a batch."""

    @abstractmethod
    def collate(self, examples: Sequence[tuple[E, int]]) -> ClassBatch:
        """A batch of examples with their classes."""

    def looked(
        self, example: Labelled, maps: Maps, numbers: Sequence[int] | None = None
    ) -> Alignment | DocumentWeights | None:
        """What was looked at, from the weights that were recorded while the model was given this example alone; None
        where it looks at nothing. Of `several` maps the mean, or that of those whose numbers are given."""
        return None

    def side(self, example: Labelled) -> Side | None:
        """Where there are `several` maps, the pieces that read each other."""
        return None
