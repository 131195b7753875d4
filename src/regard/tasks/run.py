"""A trained run, opened."""

from abc import ABC, abstractmethod
from typing import Any


class Run(ABC):
    """A trained model with all that belongs to it; what can be asked of it depends on its task."""

    @abstractmethod
    def evaluate(self, examples: Any = None, /) -> dict[str, float]:
        """The run's metrics on examples of its kind, by default its own test set.

        Raises:
            InputError: the run has no test set and no examples are given.
        """
