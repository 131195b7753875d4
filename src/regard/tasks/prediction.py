"""Predictions of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

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


class ShortRepr:
    """A prediction with a `repr` of its lines, cut to a line of a notebook."""

    def lines(self: Prediction) -> list[str]:
        """Return the text on one line."""
        return [flat(self.text)]

    def to_json(self: Prediction) -> dict[str, Any]:
        """Return the fields."""
        return dict(vars(self))

    def __repr__(self: Prediction) -> str:
        text = " | ".join(self.lines()).replace("\t", " ")
        if len(text) > LONGEST:
            text = f"{text[:LONGEST]}..."
        return f"<{type(self).__name__} {text}>"


@dataclass(frozen=True, repr=False)
class TextPrediction(ShortRepr):
    """A prediction of a text with some values."""

    text: str
    values: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the text and the values."""
        return {"prediction": self.text, **self.values}


@dataclass(frozen=True, repr=False)
class GeneratedText(ShortRepr):
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
    prompt: str | None = None
    """The text that is continued."""
    ids: tuple[int, ...] = ()
    """The ids of the tokens."""

    def lines(self) -> list[str]:
        """Return the text on one line, a continuation with its prompt as it is."""
        if self.prompt is None:
            return [flat(self.text)]
        return f"{self.prompt}{self.text}".split("\n")

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        values: dict[str, Any] = {} if self.prompt is None else {"prompt": self.prompt}
        values |= {name: getattr(self, name) for name in ("text", "score", "finished")}
        values["tokens"] = list(self.tokens)
        values["attention"] = self.attention and {
            "source": list(self.attention.source),
            "target": list(self.attention.target),
            "weights": self.attention.weights.astype(float).round(6).tolist(),
        }
        values["alternatives"] = [text.to_json() for text in self.alternatives]
        return values

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
