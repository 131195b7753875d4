"""Predictions of a run."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from regard.errors import quote

if TYPE_CHECKING:
    from regard.maps.alignment import Alignment

LONGEST = 100
"""Largest number of characters of a prediction in its `repr`."""


@runtime_checkable
class Prediction(Protocol):
    """A prediction for one example."""

    @property
    def text(self) -> str:
        """The prediction as text."""
        ...

    def lines(self) -> list[str]:
        """Return the lines that the command line prints, without line ends."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        ...


@runtime_checkable
class SearchedPrediction(Prediction, Protocol):
    """A prediction of a search."""

    @property
    def score(self) -> float:
        """Its log-probability, as the search ranks it."""
        ...

    @property
    def finished(self) -> bool:
        """Whether it ended before the limit."""
        ...

    @property
    def missing(self) -> Sequence[str]:
        """The required phrases that it lacks."""
        ...

    @property
    def alternatives(self) -> "Sequence[SearchedPrediction]":
        """The next best predictions."""
        ...


class ShortRepr(ABC):
    """A `repr` of the lines that the command line prints, cut to a line of a notebook."""

    @abstractmethod
    def lines(self) -> list[str]:
        """Return the lines that the command line prints, without line ends."""

    def __repr__(self) -> str:
        text = " | ".join(self.lines()).replace("\t", " ")
        if len(text) > LONGEST:
            text = f"{text[:LONGEST]}..."
        return f"<{type(self).__name__} {text}>"


@dataclass(frozen=True, repr=False)
class TextPrediction(ShortRepr):
    """A prediction of a text with some values."""

    text: str
    values: Mapping[str, Any] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """Return the text on one line."""
        return [flat(self.text)]

    def to_json(self) -> dict[str, Any]:
        """Return the text and the values."""
        return {"prediction": self.text, **self.values}


@dataclass(frozen=True)
class GeneratedText:
    """A text that a model wrote: a translation, a continuation, a caption, a transcript."""

    text: str
    score: float
    """Log-probability, divided by the length penalty if the run has one."""
    finished: bool
    """Whether the model ended the text before the limit."""
    tokens: tuple[str, ...]
    """Readable pieces. The end is among them where `attention` has a row for it."""
    attention: "Alignment | None" = None
    """A row for each token, a column for each piece of the source: the mean of all heads."""
    alternatives: "tuple[GeneratedText, ...]" = ()
    """The next best texts."""
    missing: tuple[str, ...] = ()
    """Required phrases that the text lacks because of the length limit."""
    prompt: str | None = None
    """The text that is continued."""
    ids: tuple[int, ...] = ()
    """The ids of the tokens."""

    def __repr__(self) -> str:
        text = quote(f"{self.prompt or ''}{self.text}", LONGEST)
        parts = [f"score={self.score:.4g}"]
        if self.alternatives:
            parts.append(f"{len(self.alternatives)} alternatives")
        if not self.finished:
            parts.append("unfinished")
        return f"GeneratedText({text}, {', '.join(parts)})"

    def lines(self) -> list[str]:
        """Return the text on one line, a continuation with its prompt as it is."""
        if self.prompt is None:
            return [flat(self.text)]
        return f"{self.prompt}{self.text}".split("\n")

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        attention = None
        if self.attention is not None:
            attention = {
                "source": list(self.attention.source),
                "target": list(self.attention.target),
                "weights": self.attention.weights.astype(float).round(6).tolist(),
            }
        prompt = {} if self.prompt is None else {"prompt": self.prompt}
        return prompt | {
            "text": self.text,
            "score": self.score,
            "finished": self.finished,
            "missing": list(self.missing),
            "tokens": list(self.tokens),
            "attention": attention,
            "alternatives": [text.to_json() for text in self.alternatives],
        }

    def _repr_mimebundle_(
        self, include: Any = None, exclude: Any = None
    ) -> dict[str, str]:
        """Return a notebook's display: the text, and its attention in a frame."""
        bundle = {"text/plain": self.text}
        if self.attention is None:
            return bundle
        from regard.maps.lookups import lookups_from_alignment
        from regard.pictures.page import View

        view = View(lookups_from_alignment(self.attention), title=self.text)
        return view._repr_mimebundle_() | bundle


def rank_distinct(texts: Sequence[Any], count: int) -> Any:
    """Return the best of some texts with the next best as its alternatives.

    A text may have several segmentations, and a sample may come twice.

    Args:
        texts: At least one `GeneratedText`, best first.
        count: Largest number of different texts.
    """
    first: dict[str, Any] = {}
    for text in texts:
        first.setdefault(text.text, text)
    best, *alternatives = list(first.values())[:count]
    return replace(best, alternatives=tuple(alternatives))


def flat(text: str) -> str:
    """Return a text on one line."""
    return text.replace("\r", " ").replace("\n", " ")
