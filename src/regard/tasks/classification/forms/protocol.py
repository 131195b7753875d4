"""What every form is."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import numpy as np

from regard.attention.record import Maps
from regard.attribution.gradients import Contributed
from regard.maps import Alignment, DocumentWeights
from regard.maps.heads import Side
from regard.tasks.classification.batch import ClassBatch
from regard.tasks.classification.data import Labelled

E = TypeVar("E")
Joined = Callable[[Maps], np.ndarray]
"""Of recorded maps one, `(target, source)`."""


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

    def looked(self, example: Labelled, maps: Maps, joined: Joined) -> Alignment | DocumentWeights | None:
        """What was looked at, from what was recorded while the model was given this example alone; None where it looks
        at nothing. Where it has `several` maps, `joined` makes them one."""
        return None

    def side(self, example: Labelled) -> Side | None:
        """Where there are `several` maps, the pieces that read each other."""
        return None

    @abstractmethod
    def owed(self, example: Labelled, found: Sequence[Contributed], label: str) -> Alignment | DocumentWeights:
        """What the label's log-probability owes to what was read, from what each call of an embedding contributed to it
        while the model was given this example alone."""
