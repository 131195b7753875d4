"""A trained pointer network, opened: `load(folder).point(sets)`."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from regard.attention.breakdown import worked
from regard.attention.record import record
from regard.errors import InputError
from regard.maps.alignment import Alignment
from regard.maps.breakdown import Workings
from regard.models.pointer_network import PointerNetwork
from regard.nonfinite import guarded
from regard.storage.run_folder import RunDirectory
from regard.tasks.pointer.batch import collate_sets
from regard.tasks.pointer.config import Pointer
from regard.tasks.pointer.data import Element, PointedSet
from regard.tasks.pointer.training import answers, figures, places
from regard.tasks.run import Run


@dataclass(frozen=True)
class Pointed:
    """An answer: the `places` in the set, counted from 0, the log-probability of all of them, and the weights of every
    step on the end and on each element, the end's step last, and what these are made of."""

    places: tuple[int, ...]
    score: float
    attention: Alignment
    workings: Workings | None = None


class PointerRun(Run):
    """A trained model with its run file."""

    def __init__(self, config: Pointer, model: PointerNetwork):
        self.config, self.model = config, model

    @classmethod
    def open(cls, run: RunDirectory, config: Pointer) -> "PointerRun":
        """The run in a folder, its model with fresh weights."""
        return cls(config, PointerNetwork(config.data.width, config.model))

    def evaluate(self, examples: Sequence[PointedSet] | None = None) -> dict[str, float]:
        """How many answers are right, by default on the run's own test set.

        Raises:
            InputError: the run has no test set and no sets are given.
        """
        sets = self.config.data.load().test if examples is None else examples
        if not sets:
            raise InputError("there is no test set in the run file and no sets are given; set data.test")
        with guarded(self.model):
            return figures(self.model, sets, self.config.search)

    @torch.no_grad()
    def point(self, sets: Sequence[Sequence[Element]]) -> list[Pointed]:
        """The answer for each set of vectors.

        Raises:
            InputError: a set is empty, has more elements than the model can take, or elements of another width.
        """
        asked = [self._checked(number, elements) for number, elements in enumerate(sets, 1)]
        with guarded(self.model):
            found = answers(self.model, asked, self.config.search)
        return [self._pointed(each, places(best), best.score) for each, best in zip(asked, found, strict=True)]

    def _checked(self, number: int, elements: Sequence[Element]) -> PointedSet:
        width, most = self.config.data.width, self.model.max_elements
        if not 1 <= len(elements) <= most:
            raise InputError(f"set {number}: has {len(elements)} elements; the model takes 1 to {most}")
        for place, element in enumerate(elements, 1):
            if len(element) != width:
                raise InputError(f"set {number}: element {place} has {len(element)} numbers; expected {width}")
        return PointedSet(tuple(map(tuple, elements)), (), f"set {number}")

    def _pointed(self, asked: PointedSet, found: tuple[int, ...], score: float) -> Pointed:
        """With the weights of the pass that gives exactly this answer."""
        device = next(self.model.parameters()).device
        batch = collate_sets([PointedSet(asked.elements, found, asked.place)]).to(device)
        with record(self.model.decoder, only="attend") as maps, worked(self.model.decoder, "attend") as seen:
            self.model(batch.elements, batch.lengths, batch.target_in)
        labels = [" ".join(f"{number:.3g}" for number in element) for element in asked.elements]
        written = (*(labels[place] for place in found), "</s>")
        weights = maps["attend"][0].cpu().numpy()
        attention = Alignment(weights, ("</s>", *labels), written)
        return Pointed(found, score, attention, seen.workings(weights[None, None]))
