"""Pointer networks (Vinyals 2015, 1506.03134): sorting numbers, convex hulls of points."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from operator import eq
from random import Random
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.attention.record import record
from regard.attribution.attention import to_single_map
from regard.data.batches import Batch, pad_rows
from regard.data.generated.pairs import IndependentSets, SyntheticOfLengths
from regard.decoding.search import Search
from regard.errors import InputError
from regard.maps.alignment import Alignment
from regard.models.pointer_network import END, PointerNetwork, PointerNetworkConfig
from regard.shapes import Float, Int
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution
from regard.tasks.base import (
    LineRun,
    Setup,
    TokenBatchObjective,
    digest_splits,
    search_batches,
    setup_task,
)
from regard.tasks.options import AttributionOptions, EvaluationOptions, TextPrediction
from regard.tasks.run import Task, refuse_smoothing
from regard.tasks.summary import DataSummary, Lengths, describe_rows
from regard.text.kinds import IGNORED, SPECIAL
from regard.training.objectives import Carried, Loss
from regard.training.settings import Training, forcing

BATCH_ROWS = 256
"""Sets in one batch of decoding."""
Elements = Sequence[tuple[float, ...]]


@dataclass(frozen=True)
class PointedSet:
    """Vectors of one width with the positions that a pointer network learns."""

    elements: Elements
    target: Sequence[int]
    """Positions in the set, from 0."""


@dataclass(frozen=True, kw_only=True)
class GeneratedSets(IndependentSets, SyntheticOfLengths):
    """Sets of `least` to `most` elements, uniform from 0 to 1 in every dimension.

    Attributes:
        least: The smallest number of elements in a set.
        most: The largest number of elements in a set.
    """

    least: int = 5
    most: int = 10

    width = 1

    @abstractmethod
    def solve(self, elements: Elements) -> list[int]:
        """Return the target of a set."""

    def make(self, name: str) -> list[PointedSet]:
        random = Random(f"{type(self).__name__}/{self.seed}/{name}")
        sets = []
        for _ in range(getattr(self, name)):
            count = random.randint(self.least, self.most)
            numbers = [random.random() for _ in range(count * self.width)]
            elements = tuple(zip(*[iter(numbers)] * self.width, strict=True))
            sets.append(PointedSet(elements, tuple(self.solve(elements))))
        return sets

    @property
    def form(self) -> str:
        """What a line is: `0.5 0.1 0.7`, or of points `0.5,0.2 0.1,0.9`."""
        return (
            f"elements of {self.width} numbers, separated by spaces, those of a point by "
            "commas"
        )

    def parse(self, line: str) -> PointedSet:
        """Return the set of a line. Raises ValueError for another line."""
        elements = [tuple(map(float, word.split(","))) for word in line.split()]
        sizes = {len(element) for element in elements}
        if sizes != {self.width} or not all(map(math.isfinite, chain(*elements))):
            raise ValueError(line)
        return PointedSet(elements, ())


@dataclass(frozen=True, kw_only=True)
class Sorting(GeneratedSets):
    """Numbers with their positions in ascending order; equal numbers keep their order."""

    kind: Literal["sorting"] = "sorting"

    def solve(self, elements: Elements) -> list[int]:
        return sorted(range(len(elements)), key=elements.__getitem__)


@dataclass(frozen=True, kw_only=True)
class ConvexHull(GeneratedSets):
    """Points of a plane with the positions of their convex hull (section 3.1).

    The hull runs counter-clockwise from its first point in the set.
    """

    kind: Literal["convex-hull"] = "convex-hull"

    width = 2
    smallest = 3

    def solve(self, elements: Elements) -> list[int]:
        order = sorted(range(len(elements)), key=elements.__getitem__)
        lower = build_half_hull(order, elements)
        upper = build_half_hull(order[::-1], elements)
        hull = lower[:-1] + upper[:-1]
        start = hull.index(min(hull))
        return hull[start:] + hull[:start]


def build_half_hull(order: Sequence[int], points: Elements) -> list[int]:
    """Return one side of the hull, by Andrew's monotone chain."""
    chain: list[int] = []
    for index in order:
        while len(chain) > 1:
            (ax, ay), (bx, by), (cx, cy) = (points[i] for i in (*chain[-2:], index))
            # the path from a over b to c turns left
            if (bx - ax) * (cy - ay) - (by - ay) * (cx - ax) > 0:
                break
            chain.pop()
        chain.append(index)
    return chain


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
        refuse_smoothing(self.training)


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
    targets = [[END + 1 + index for index in example.target] for example in sets]
    target_in, _ = pad_rows([[SPECIAL.start, *target] for target in targets])
    target_out, lengths = pad_rows([[*target, END] for target in targets], fill=IGNORED)
    return SetBatch(
        nn.utils.rnn.pad_sequence(vectors, batch_first=True),
        torch.tensor(list(map(len, vectors))),
        target_in,
        target_out,
        int(lengths.sum()),
    )


class PointerObjective(TokenBatchObjective[PointedSet, SetBatch]):
    """Maximum likelihood of the target positions, one at a time."""

    metric = "exact-match"
    higher_is_better = True

    def collate(self, examples: Sequence[PointedSet]) -> SetBatch:
        return collate_sets(examples)

    def loss(
        self, model: Any, batch: SetBatch, update: int, carried: Carried | None = None
    ) -> Loss:
        forced = forcing(self.settings, update)
        features = model.features(
            batch.elements, batch.lengths, batch.target_in, forcing=forced
        )
        total, _ = model.decoder.output.loss(features, batch.target_out)
        return Loss(total, batch.target_tokens)


def setup(config: Pointer, folder: RunDirectory, processes: int) -> Setup:
    """Generate the data and build model and objective.

    Raises:
        InputError: There is too little data.
    """
    splits = config.data.load()
    sizes = [len(example.elements) for example in splits.train]
    return setup_task(
        PointerRun.build(config),
        PointerObjective(
            splits.train,
            splits.valid,
            config.training,
            [
                (size + 1, len(example.target) + 1)
                for size, example in zip(sizes, splits.train, strict=True)
            ],
            "sets",
            run=partial(PointerRun, config),
        ),
        splits,
        digest_splits(
            splits, lambda example: f"{example.elements}\0{example.target}\n"
        ),
        DataSummary(
            unit="sets",
            rows=describe_rows(config.data, splits),
            lengths={"set": Lengths.of(sizes)},
        ),
    )


class PointerRun(LineRun):
    """A trained pointer network: `load(folder).predict(["0.5 0.1 0.7"])`."""

    config: Pointer
    model: PointerNetwork
    key = "set"

    @staticmethod
    def build(config: Pointer) -> PointerNetwork:
        return PointerNetwork(config.data.width, config.model)

    def read_line(self, line: str, place: str) -> PointedSet:
        example = super().read_line(line, place)
        count = len(example.elements)
        if count > self.model.max_elements:
            raise InputError(
                f"{place}: has {count} elements; the model takes {self.model.max_elements}"
            )
        return example

    def compute_metrics(
        self, examples: Sequence[PointedSet], options: EvaluationOptions
    ) -> dict[str, float]:
        """Return the shares of outputs and of positions that are right, in percent."""
        predictions = self.search(examples, self.config.search.with_beam(options.beam))
        exact = correct = count = 0
        for example, prediction in zip(examples, predictions, strict=True):
            output = prediction.values["places"]
            exact += output == example.target
            correct += sum(map(eq, output, example.target))
            count += len(example.target)
        return {
            "exact-match": 100 * exact / len(examples),
            "places": 100 * correct / count,
        }

    def predict_examples(self, examples: Sequence[PointedSet]) -> list[TextPrediction]:
        return self.search(examples, self.config.search)

    def _attribute(self, example: str, options: AttributionOptions) -> Attribution:
        """Attribute by a pass with teacher forcing.

        The weights of every step are on the end and on each element; the end's step is
        the last.
        """
        (prediction,) = self.predict([example])
        positions = prediction.values["places"]
        current = replace(self.read_line(example, "set 1"), target=positions)
        batch = collate_sets([current]).to(self.device)
        recording = record(self.model.decoder, "attend", breakdown=True)
        with torch.no_grad(), recording as maps:
            self.model(batch.elements, batch.lengths, batch.target_in)
        weights = maps["attend"][0].cpu().numpy()
        labels = [
            ",".join(f"{number:.3g}" for number in element)
            for element in current.elements
        ]
        outputs = (*(labels[index] for index in positions), "</s>")
        attention = Alignment(weights, ("</s>", *labels), outputs)
        breakdown = maps.breakdown(weights[None, None])
        return Attribution(
            prediction,
            example,
            (replace(to_single_map(attention, "weights"), breakdown=breakdown),),
            attention,
            options,
        )

    def search(
        self, sets: Sequence[PointedSet], search: Search
    ) -> list[TextPrediction]:
        """Search the positions in each set, from 0, at most one more than it has."""

        def encode(batch_sets: Sequence[PointedSet]) -> tuple[Any, Tensor]:
            batch = collate_sets(batch_sets).to(self.device)
            return self.model.encoder(batch.elements, batch.lengths), batch.lengths + 1

        predictions = []
        for best, *_ in search_batches(
            self.model.decoder, encode, sets, BATCH_ROWS, search
        ):
            positions = tuple(token - END - 1 for token in best.tokens)
            values = {"places": positions, "score": best.score}
            predictions.append(TextPrediction(" ".join(map(str, positions)), values))
        return predictions


TASK = Task(Pointer, setup, PointerRun, command="regard predict {} 'NUMBER NUMBER ...'")
