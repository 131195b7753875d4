"""A trained run, opened."""

from abc import ABC, abstractmethod
from typing import Any


class Run(ABC):
    """A trained model with all that belongs to it; what can be asked of it depends on its task."""

    def convention(self) -> str | None:
        """What its figures count, in a line, where that may be done in several ways."""
        return None

    @abstractmethod
    def evaluate(self, examples: Any = None, /) -> dict[str, float]:
        """The run's metrics on examples of its kind, by default its own test set.

        Raises:
            InputError: the run has no test set and no examples are given.
        """


def refuse_one_text(given: object, name: str = "texts") -> None:
    """Raises TypeError for a single text where a list of them is wanted, which would be read letter by letter."""
    if isinstance(given, str):
        raise TypeError(f"{name} is one str; give a list of them")
