"""Pointer networks (Vinyals 2015, 1506.03134): orders and choices of a set's elements."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import eq
from random import Random
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.attention.record import record_breakdown
from regard.attribution.aggregation import to_single_map
from regard.data.batches import Batch, pad_rows
from regard.data.generated.synthetic import SyntheticOfLengths
from regard.data.splits import Splits
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.search import Search
from regard.errors import InputError
from regard.maps.alignment import Alignment
from regard.models.pointer_network import END, PointerNetwork, PointerNetworkConfig
from regard.shapes import Float, Int
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution
from regard.tasks.base import (
    Setup,
    TokenBatchObjective,
    digest_splits,
    search_batches,
    setup_task,
)
from regard.tasks.options import AttributionOptions, EvaluationOptions, PredictOptions
from regard.tasks.prediction import TextPrediction
from regard.tasks.run import Run
from regard.tasks.summary import DataSummary, Lengths, describe_rows
from regard.tasks.task import LazyTask
from regard.text.special import IGNORED, SPECIAL
from regard.training.objectives import Carried, Loss
from regard.training.schedules import forcing
from regard.training.settings import Training

TASK = LazyTask(
    __name__,
    ":Pointer",
    ":setup",
    ":PointerRun",
    command="regard predict {} 'NUMBER NUMBER ...'",
)
BATCH_ROWS = 256
"""Sets in one batch of decoding."""
Element = tuple[float, ...]
Elements = str | Sequence[Element]
"""A set as its elements, or as a line: `0.5 0.1 0.7`, of points `0.5,0.2 0.1,0.9`."""


@dataclass(frozen=True)
class PointedSet:
    """Vectors of one width with the positions that a pointer network learns."""

    elements: tuple[Element, ...]
    target: tuple[int, ...]
    """Positions in the set, from 0."""
    place: str
    """Where the set came from, for messages."""


@dataclass(frozen=True, kw_only=True)
class GeneratedSets(SyntheticOfLengths, ABC):
    """Sets of `least` to `most` elements, uniform from 0 to 1 in every dimension.

    least: The smallest number of elements in a set.
    most: The largest number of elements in a set.
    """

    least: int = 5
    most: int = 10

    width = 1

    @abstractmethod
    def solve(self, elements: Sequence[Element]) -> list[int]:
        """Return the target of a set."""

    def load(self) -> Splits[PointedSet]:
        """Generate the three sets, each with a generator of its own."""
        return Splits(*map(self._make, ("train", "valid", "test")))

    def tests(self) -> list[PointedSet]:
        """Generate the test set."""
        return self._make("test")

    def _make(self, name: str) -> list[PointedSet]:
        random = Random(f"{type(self).__name__}/{self.seed}/{name}")
        sets = []
        for number in range(1, getattr(self, name) + 1):
            count = random.randint(self.least, self.most)
            elements = tuple(
                tuple(random.random() for _ in range(self.width)) for _ in range(count)
            )
            target = tuple(self.solve(elements))
            sets.append(PointedSet(elements, target, f"{name} {number}"))
        return sets


@dataclass(frozen=True, kw_only=True)
class Sorting(GeneratedSets):
    """Numbers with their positions in ascending order; equal numbers keep their order."""

    kind: Literal["sorting"] = "sorting"

    def solve(self, elements: Sequence[Element]) -> list[int]:
        return sorted(range(len(elements)), key=lambda index: elements[index])


@dataclass(frozen=True, kw_only=True)
class ConvexHull(GeneratedSets):
    """Points of a plane with the positions of their convex hull (section 3.1).

    The hull runs counter-clockwise from its first point in the set.
    """

    kind: Literal["convex-hull"] = "convex-hull"

    width = 2
    smallest = 3

    def solve(self, elements: Sequence[Element]) -> list[int]:
        order = sorted(range(len(elements)), key=lambda index: elements[index])
        lower = build_half_hull(order, elements)
        upper = build_half_hull(order[::-1], elements)
        hull = lower[:-1] + upper[:-1]
        start = hull.index(min(hull))
        return hull[start:] + hull[:start]


def build_half_hull(order: Sequence[int], points: Sequence[Element]) -> list[int]:
    """Return one side of the hull, by Andrew's monotone chain."""
    chain: list[int] = []
    for index in order:
        while len(chain) > 1:
            a = points[chain[-2]]
            b = points[chain[-1]]
            if cross_product(a, b, points[index]) > 0:
                break
            chain.pop()
        chain.append(index)
    return chain


def cross_product(a: Element, b: Element, c: Element) -> float:
    """Return a number above 0 where the path from a over b to c turns left."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


@dataclass(frozen=True, kw_only=True)
class Pointer:
    """A run file. A batch has room for `training.batch_tokens` elements."""

    task: Literal["pointer"] = "pointer"
    data: Sorting | ConvexHull
    model: PointerNetworkConfig = field(default_factory=PointerNetworkConfig)
    training: Training = field(default_factory=Training)
    search: Search = field(default_factory=Search)

    def __post_init__(self) -> None:
        longest = self.model.max_elements
        if self.data.most > longest:
            raise ValueError(
                f"data.most is {self.data.most}, more than model.max_elements, "
                f"{longest}; raise that"
            )
        if self.training.label_smoothing:
            raise ValueError(
                "training.label_smoothing is for words, not for positions; set it to 0"
            )


@dataclass(frozen=True, repr=False)
class SetBatch(Batch):
    """Sets of vectors, padded with zeros, and the positions that the decoder predicts.

    The decoder reads `target_in` and predicts `target_out`, padded with `IGNORED`, in
    which position i of a set is the token END + 1 + i.
    """

    elements: Float[Tensor, "batch element element_width"]
    lengths: Int[Tensor, " batch"]
    target_in: Int[Tensor, "batch target"]
    target_out: Int[Tensor, "batch target"]
    target_tokens: int


def collate_sets(sets: Sequence[PointedSet]) -> SetBatch:
    """Pad at least one set with its target."""
    vectors = [torch.tensor(example.elements) for example in sets]
    lengths = torch.tensor([len(example.elements) for example in sets])
    targets = [[END + 1 + index for index in example.target] for example in sets]
    target_in, _ = pad_rows([[SPECIAL.start, *target] for target in targets])
    target_out, _ = pad_rows([[*target, END] for target in targets], fill=IGNORED)
    return SetBatch(
        nn.utils.rnn.pad_sequence(vectors, batch_first=True),
        lengths,
        target_in,
        target_out,
        sum(len(target) + 1 for target in targets),
    )


class PointerObjective(TokenBatchObjective[PointedSet, SetBatch]):
    """Maximum likelihood of the target positions, one at a time."""

    metric = "exact-match"
    higher_is_better = True

    def __init__(
        self, config: Pointer, train: Sequence[PointedSet], valid: Sequence[PointedSet]
    ) -> None:
        self.config = config
        lengths = [(len(s.elements) + 1, len(s.target) + 1) for s in train]
        super().__init__(train, valid, config.training, lengths, "sets")

    def collate(self, examples: Sequence[PointedSet]) -> SetBatch:
        return collate_sets(examples)

    def loss(
        self,
        model: nn.Module,
        batch: SetBatch,
        update: int,
        carried: Carried | None = None,
    ) -> Loss:
        assert isinstance(model, PointerNetwork)
        features = model.features(
            batch.elements,
            batch.lengths,
            batch.target_in,
            forcing(self.settings, update),
        )
        total, _ = model.decoder.output.loss(features, batch.target_out)
        return Loss(total, batch.target_tokens)

    def validate(self, model: nn.Module) -> dict[str, float]:
        assert isinstance(model, PointerNetwork)
        run = PointerRun(self.config, model)
        return run.compute_metrics(self.valid, EvaluationOptions(beam=1))


def setup(config: Pointer, folder: RunDirectory, processes: int) -> Setup:
    """Generate the data and build model and objective.

    Raises:
        InputError: There is too little data.
    """
    splits = config.data.load()
    first = splits.train[0]
    summary = DataSummary(
        unit="sets",
        rows=describe_rows(config.data, splits),
        lengths={"set": Lengths.of([len(s.elements) for s in splits.train])},
        example={
            "set": " ".join(format_set(first.elements)),
            "places": " ".join(map(str, first.target)),
        },
    )
    return setup_task(
        PointerNetwork(config.data.width, config.model),
        PointerObjective(config, splits.train, splits.valid),
        splits,
        digest_splits(splits, lambda s: f"{s.elements}\0{s.target}\n"),
        summary,
    )


class PointerRun(Run[Elements, TextPrediction]):
    """A trained pointer network: `load(folder).predict(sets)`."""

    config: Pointer
    model: PointerNetwork
    supports = {
        "predict": frozenset(),
        "evaluate": frozenset(),
        "attribute": frozenset(),
    }

    def __init__(self, config: Pointer, model: PointerNetwork) -> None:
        self.config = config
        self.model = model

    @classmethod
    def open(cls, run: RunDirectory, config: Pointer) -> "PointerRun":
        """Return the run in a folder, its model with initial weights."""
        return cls(config, PointerNetwork(config.data.width, config.model))

    def parse(self, line: str, place: str = "text 1") -> Elements:
        self._check(line, place)
        return line

    def record(self, example: Elements) -> dict[str, Any]:
        if isinstance(example, str):
            return {"set": example}
        return {"set": [list(element) for element in example]}

    def compute_metrics(
        self, examples: Sequence[PointedSet], options: EvaluationOptions
    ) -> dict[str, float]:
        """Return the shares of outputs and of positions that are right, in percent."""
        search = self.config.search.with_beam(options.beam)
        outputs = map(decode_positions, self._search(examples, search))
        exact = correct = count = 0
        for example, output in zip(examples, outputs, strict=True):
            exact += output == example.target
            correct += sum(map(eq, output, example.target))
            count += len(example.target)
        return {
            "exact-match": 100 * exact / len(examples),
            "places": 100 * correct / count,
        }

    def _predict(
        self, examples: Sequence[Elements], options: PredictOptions
    ) -> list[TextPrediction]:
        """Return positions in the sets, from 0, with their log-probability."""
        sets = [
            self._check(example, f"set {number}")
            for number, example in enumerate(examples, 1)
        ]
        predictions = []
        for hypothesis in self._search(sets, self.config.search):
            positions = decode_positions(hypothesis)
            values = {"places": positions, "score": hypothesis.score}
            predictions.append(TextPrediction(" ".join(map(str, positions)), values))
        return predictions

    def _attribute(self, example: Elements, options: AttributionOptions) -> Attribution:
        """Attribute by a pass with teacher forcing.

        The weights of every step are on the end and on each element; the end's step is
        the last.
        """
        (prediction,) = self.predict([example])
        positions = prediction.values["places"]
        current = replace(self._check(example, "set 1"), target=positions)
        batch = collate_sets([current]).to(self.device)
        with torch.no_grad(), record_breakdown(self.model.decoder, "attend") as maps:
            self.model(batch.elements, batch.lengths, batch.target_in)
        weights = maps["attend"][0].cpu().numpy()
        labels = format_set(current.elements)
        outputs = (*(labels[index] for index in positions), "</s>")
        attention = Alignment(weights, ("</s>", *labels), outputs)
        breakdown = maps.breakdown(weights[None, None])
        lookups = replace(to_single_map(attention, "weights"), breakdown=breakdown)
        title = " ".join(labels)
        return Attribution(prediction, title, (lookups,), attention, options)

    def _check(self, example: Elements, place: str) -> PointedSet:
        """Return the set of an example. Raises InputError for one of another size."""
        elements = parse_set(example, place) if isinstance(example, str) else example
        width = self.config.data.width
        longest = self.model.max_elements
        sizes = sorted({len(element) for element in elements})
        if len(elements) > longest or sizes != [width]:
            raise InputError(
                f"{place}: has {len(elements)} elements of {sizes} numbers; the model takes "
                f"1 to {longest} of {width} each"
            )
        return PointedSet(tuple(map(tuple, elements)), (), place)

    def _search(self, sets: Sequence[PointedSet], search: Search) -> list[Hypothesis]:
        """Return the best hypothesis of each set, at most one token longer than it."""

        def encode(batch_sets: Sequence[PointedSet]) -> tuple[Any, Tensor]:
            batch = collate_sets(batch_sets).to(self.device)
            memory = self.model.encoder(batch.elements, batch.lengths)
            return memory, batch.lengths + 1

        results = search_batches(self.model.decoder, encode, sets, BATCH_ROWS, search)
        return [best for best, *_ in results]


def decode_positions(hypothesis: Hypothesis) -> tuple[int, ...]:
    """Return the positions of a hypothesis, from 0."""
    return tuple(token - END - 1 for token in hypothesis.tokens)


def format_set(elements: Sequence[Element]) -> list[str]:
    """Return the elements of a set as `parse_set` reads them."""
    return [",".join(f"{number:.3g}" for number in element) for element in elements]


def parse_set(line: str, place: str) -> list[Element]:
    """Return the set of a line: `0.5 0.1 0.7`, of points `0.5,0.2 0.1,0.9`.

    Raises:
        InputError: An element is not of finite numbers.
    """
    elements = []
    for word in line.split():
        try:
            numbers = tuple(map(float, word.split(",")))
        except ValueError:
            numbers = (math.nan,)
        if not all(map(math.isfinite, numbers)):
            raise InputError(
                f"{place}: {word!r} is no element; expected numbers separated by spaces, "
                "those of a point by commas"
            )
        elements.append(numbers)
    return elements
