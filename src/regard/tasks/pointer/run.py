"""A trained pointer network: `load(folder).predict(sets)`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from regard.attention.record import record_breakdown
from regard.attribution.aggregation import single_map
from regard.errors import InputError
from regard.maps.alignment import Alignment
from regard.maps.breakdown import Breakdown
from regard.models.pointer_network import PointerNetwork
from regard.nonfinite import guarded
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution
from regard.tasks.evaluation import for_evaluation
from regard.tasks.options import AttributionOptions, EvaluationOptions, PredictOptions
from regard.tasks.pointer.config import Pointer
from regard.tasks.pointer.data import Element, PointedSet
from regard.tasks.pointer.training import collate_sets, decode, figures, places
from regard.tasks.prediction import ShortRepr
from regard.tasks.run import Run

Set = str | Sequence[Element]
"""A set as its elements, or as a line: `0.5 0.1 0.7`, of points `0.5,0.2 0.1,0.9`."""


@dataclass(frozen=True, repr=False)
class PointerPrediction(ShortRepr):
    """The `places` in the set, from 0, and their log-probability; the weights of every step on the end and on each
    element, the end's step last, and their breakdown."""

    places: tuple[int, ...]
    score: float
    attention: Alignment
    breakdown: Breakdown | None = None

    @property
    def text(self) -> str:
        """The places, with blanks between."""
        return " ".join(map(str, self.places))

    def lines(self) -> list[str]:
        """The places."""
        return [self.text]

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"places": self.places, "score": self.score}


class PointerRun(Run[Set, PointerPrediction]):
    """A trained model with its run file."""

    config: Pointer
    model: PointerNetwork
    supports = {
        "predict": frozenset(),
        "evaluate": frozenset(),
        "attribute": frozenset(),
    }

    def __init__(self, config: Pointer, model: PointerNetwork):
        self.config, self.model = config, model

    @classmethod
    def open(cls, run: RunDirectory, config: Pointer) -> "PointerRun":
        """The run in a folder, its model with fresh weights."""
        return cls(config, PointerNetwork(config.data.width, config.model))

    def parse(self, line: str, place: str = "text 1") -> Set:
        """A set, as its line. Raises InputError as `predict`."""
        self._checked(place, line)
        return line

    def record(self, example: Set) -> dict[str, Any]:
        return {
            "set": example
            if isinstance(example, str)
            else [list(element) for element in example]
        }

    def _evaluate(
        self, examples: Sequence[PointedSet] | None, options: EvaluationOptions
    ) -> dict[str, float]:
        """The shares of right outputs and of right places, in per cent.

        Raises:
            InputError: there are neither examples nor a test set.
        """
        sets = for_evaluation(
            examples,
            self.config.data,
            "set data.test",
            tests=lambda: self.config.data.load().test,
            valid=tuple,
        )
        with guarded(self.model):
            return figures(self.model, sets, self.config.search)

    @torch.no_grad()
    def _predict(
        self, examples: Sequence[Set], options: PredictOptions
    ) -> list[PointerPrediction]:
        """The places of each set.

        Raises:
            InputError: a set is empty, has more elements than the model can take, or elements of another width.
        """
        sets = [
            self._checked(f"set {number}", each)
            for number, each in enumerate(examples, 1)
        ]
        with guarded(self.model):
            found = decode(self.model, sets, self.config.search)
        return [
            self._prediction(each, places(best), best.score)
            for each, best in zip(sets, found, strict=True)
        ]

    def _attribute(self, example: Set, options: AttributionOptions) -> Attribution:
        """The weights of every step on the end and on each element."""
        (found,) = self._predict([example], PredictOptions())
        lookups = replace(
            single_map(found.attention, "weights"), breakdown=found.breakdown
        )
        title = example if isinstance(example, str) else written(example)
        return Attribution(found, title, (lookups,), found.attention, options)

    def _checked(self, place: str, example: Set) -> PointedSet:
        elements = parse_set(example, place) if isinstance(example, str) else example
        width, most = self.config.data.width, self.model.max_elements
        if not 1 <= len(elements) <= most:
            raise InputError(
                f"{place}: has {len(elements)} elements; the model takes 1 to {most}"
            )
        for number, element in enumerate(elements, 1):
            if len(element) != width:
                raise InputError(
                    f"{place}: element {number} has {len(element)} numbers; expected {width}"
                )
        return PointedSet(tuple(map(tuple, elements)), (), place)

    def _prediction(
        self, example: PointedSet, found: tuple[int, ...], score: float
    ) -> PointerPrediction:
        """The prediction of these places, with the weights of a pass with teacher forcing."""
        device = next(self.model.parameters()).device
        batch = collate_sets([PointedSet(example.elements, found, example.place)]).to(
            device
        )
        with record_breakdown(self.model.decoder, "attend") as maps:
            self.model(batch.elements, batch.lengths, batch.target_in)
        labels = [
            " ".join(f"{number:.3g}" for number in element)
            for element in example.elements
        ]
        written = (*(labels[place] for place in found), "</s>")
        weights = maps["attend"][0].cpu().numpy()
        attention = Alignment(weights, ("</s>", *labels), written)
        return PointerPrediction(
            found, score, attention, maps.breakdown(weights[None, None])
        )


def written(elements: Sequence[Element]) -> str:
    """A set in the format of `parse_set`."""
    return " ".join(
        ",".join(f"{number:g}" for number in element) for element in elements
    )


def parse_set(line: str, place: str) -> list[Element]:
    """`0.5 0.1 0.7`, or of points `0.5,0.2 0.1,0.9`. Raises InputError for an element that is not numeric."""
    return [
        tuple(number(part, element, place) for part in element.split(","))
        for element in line.split()
    ]


def number(part: str, element: str, place: str) -> float:
    """A finite number of an element. Raises InputError."""
    try:
        found = float(part)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise InputError(
            f"{place}: {element!r} is no element; expected numbers separated by blanks, those of a point with commas"
        )
    return found
