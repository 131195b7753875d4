"""The prediction for one text."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from regard.decoding.mbr import least_risk
from regard.errors import quoted
from regard.maps.alignment import Alignment
from regard.maps.lookups import of_alignment
from regard.pictures.view import View
from regard.tasks.prediction import LONGEST, flat


@dataclass(frozen=True)
class Prediction:
    """An output, its score, and the attention of each of its tokens.

    `score` is a log-probability, divided by the length penalty if the run has one. `tokens` are readable pieces, END
    included if the output is `finished`. `attention` has a row for each of them and a column for each piece of the
    source, the mean over layers and heads; None for a model that does not attend. `alternatives` are the next best.
    `missing` are the required phrases that it lacks because of the length limit.
    """

    text: str
    score: float
    finished: bool
    tokens: tuple[str, ...]
    attention: Alignment | None = None
    alternatives: tuple["Prediction", ...] = ()
    missing: tuple[str, ...] = ()

    def __repr__(self) -> str:
        more = "".join(
            [
                f", {len(self.alternatives)} alternatives" if self.alternatives else "",
                "" if self.finished else ", unfinished",
            ]
        )
        return f"Prediction({quoted(self.text, LONGEST)}, score={self.score:.4g}{more})"

    def lines(self) -> list[str]:
        """The text, on one line."""
        return [flat(self.text)]

    def least_risk(self) -> "Prediction":
        """The prediction or alternative that is most similar to the others (`decoding.mbr`)."""
        candidates = (replace(self, alternatives=()), *self.alternatives)
        return candidates[least_risk([each.text for each in candidates])]

    def without(self, phrases: Sequence[tuple[str, ...]]) -> "Prediction":
        """The prediction with the phrases that it and each of its alternatives lack."""
        rest = zip(self.alternatives, phrases[1:], strict=True)
        return replace(
            self,
            missing=phrases[0],
            alternatives=tuple(replace(each, missing=m) for each, m in rest),
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "text": self.text,
            "score": self.score,
            "finished": self.finished,
            "missing": list(self.missing),
            "tokens": list(self.tokens),
            "attention": None
            if self.attention is None
            else {
                "source": list(self.attention.source),
                "target": list(self.attention.target),
                "weights": [
                    [round(weight, 6) for weight in row]
                    for row in self.attention.weights.tolist()
                ],
            },
            "alternatives": [each.to_json() for each in self.alternatives],
        }

    def _repr_mimebundle_(
        self, include: Any = None, exclude: Any = None
    ) -> dict[str, str]:
        """The notebook's display: the text, and its attention as a picture and in a sandboxed frame."""
        bundle = {"text/plain": self.text}
        if self.attention is not None:
            bundle = (
                View(of_alignment(self.attention), title=self.text)._repr_mimebundle_()
                | bundle
            )
        return bundle
