"""Predictions of a run."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

H = TypeVar("H")
A = TypeVar("A", bound="WithAlternatives")
LONGEST = 100
"""The most characters of a prediction in its `repr`."""


@runtime_checkable
class Prediction(Protocol):
    """A prediction for one example."""

    @property
    def text(self) -> str:
        """The prediction as text."""
        ...

    def lines(self) -> list[str]:
        """The lines that the command line prints, without line ends."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON."""
        ...


@runtime_checkable
class SearchedPrediction(Protocol):
    """A prediction of a search.

    score: its log-probability, as the search ranks it.
    finished: whether it ended before the limit.
    missing: the required phrases that it lacks.
    alternatives: the next best predictions.
    """

    @property
    def text(self) -> str: ...

    @property
    def score(self) -> float: ...

    @property
    def finished(self) -> bool: ...

    @property
    def missing(self) -> Sequence[str]: ...

    @property
    def alternatives(self) -> "Sequence[SearchedPrediction]": ...

    def lines(self) -> list[str]: ...

    def to_json(self) -> dict[str, Any]: ...


@runtime_checkable
class WithAlternatives(Protocol):
    """A dataclass of a text with the next best ones."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def text(self) -> str: ...

    @property
    def alternatives(self) -> Sequence[Any]: ...


class ShortRepr(ABC):
    """A `repr` of the lines that the command line prints, cut to a line of a notebook."""

    @abstractmethod
    def lines(self) -> list[str]:
        """The lines that the command line prints, without line ends."""

    def __repr__(self) -> str:
        text = " | ".join(self.lines()).replace("\t", " ")
        return f"<{type(self).__name__} {text if len(text) <= LONGEST else text[:LONGEST] + '...'}>"


@dataclass(frozen=True, repr=False)
class TextPrediction(ShortRepr):
    """A prediction of a text with some values."""

    text: str
    values: Mapping[str, Any] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """The text on one line."""
        return [flat(self.text)]

    def to_json(self) -> dict[str, Any]:
        """Text and values."""
        return {"prediction": self.text, **self.values}


def distinct(found: Sequence[H], text_of: Callable[[H], str], most: int) -> list[H]:
    """The best `most` outputs, best first, without those whose text a better one has: a text may have several
    segmentations, and a sample may come twice."""
    first: dict[str, H] = {}
    for each in found:
        first.setdefault(text_of(each), each)
    return list(first.values())[:most]


def ranked(found: Sequence[A], most: int) -> A:
    """The best of at least one prediction, best first, with the others of `most` different texts as alternatives."""
    best, *others = distinct(found, lambda one: one.text, most)
    return replace(best, alternatives=tuple(others))


def flat(text: str) -> str:
    """A text on one line."""
    return text.replace("\r", " ").replace("\n", " ")
