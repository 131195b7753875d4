"""Predictions of a run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, runtime_checkable

H = TypeVar("H")


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


@dataclass(frozen=True)
class TextPrediction:
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


def flat(text: str) -> str:
    """A text on one line."""
    return text.replace("\r", " ").replace("\n", " ")
