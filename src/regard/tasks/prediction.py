"""Predictions of a run."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from regard.errors import quote

if TYPE_CHECKING:
    from regard.maps.alignment import Alignment

T = TypeVar("T")
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
class SearchedPrediction(Protocol):
    """A prediction of a search.

    Attributes:
        score: Its log-probability, as the search ranks it.
        finished: Whether it ended before the limit.
        missing: The required phrases that it lacks.
        alternatives: The next best predictions.
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
            rows = self.attention.weights.tolist()
            attention = {
                "source": list(self.attention.source),
                "target": list(self.attention.target),
                "weights": [[round(weight, 6) for weight in row] for row in rows],
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

    def choose_least_risk(self) -> "GeneratedText":
        """Return the one of the texts most similar to the others (`decoding.mbr`)."""
        from regard.decoding.texts import least_risk  # it imports sacrebleu

        candidates = (replace(self, alternatives=()), *self.alternatives)
        return candidates[least_risk([candidate.text for candidate in candidates])]

    def with_missing(self, phrases: Sequence[tuple[str, ...]]) -> "GeneratedText":
        """Return the text with the phrases that it and each alternative lack."""
        pairs = zip(self.alternatives, phrases[1:], strict=True)
        alternatives = tuple(replace(text, missing=lacking) for text, lacking in pairs)
        return replace(self, missing=phrases[0], alternatives=alternatives)

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


def drop_repeats(
    outputs: Sequence[T], text_of: Callable[[T], str], count: int
) -> list[T]:
    """Return the best outputs with different texts.

    A text may have several segmentations, and a sample may come twice.

    Args:
        outputs: The outputs, best first.
        text_of: Returns the text of an output.
        count: Largest number of outputs to return.
    """
    first: dict[str, T] = {}
    for output in outputs:
        first.setdefault(text_of(output), output)
    return list(first.values())[:count]


def rank_distinct(texts: Sequence[Any], count: int) -> Any:
    """Return the best of some texts with the next best as its alternatives.

    Args:
        texts: At least one `GeneratedText`, best first.
        count: Largest number of different texts.
    """
    best, *alternatives = drop_repeats(texts, lambda text: text.text, count)
    return replace(best, alternatives=tuple(alternatives))


def flat(text: str) -> str:
    """Return a text on one line."""
    return text.replace("\r", " ").replace("\n", " ")
