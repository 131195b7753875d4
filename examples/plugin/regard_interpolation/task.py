"""The task: its run file, its generated curves, its training and its trained run."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

import regard
from regard.errors import InputError
from regard.maps.alignment import Alignment
from regard.maps.lookups import lookups_from_alignment
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution
from regard.tasks.base import Setup
from regard.tasks.options import AttributionOptions, EvaluationOptions, PredictOptions, TextPrediction
from regard.tasks.run import Run, Task
from regard.training.settings import Training
from regard_interpolation.model import Interpolator


class Curve(NamedTuple):
    """Known points, the place that is predicted, and the height there."""

    points: tuple[tuple[float, float], ...]
    place: float
    height: float = math.nan


def waves(count: int, seed: str) -> list[Curve]:
    """So many sines of a random phase, each known at twelve random places."""
    random, curves = Random(seed), []
    for _ in range(count):
        phase, places = random.uniform(0, 6), [random.uniform(0, 6) for _ in range(13)]
        *points, last = [(place, math.sin(place + phase)) for place in places]
        curves.append(Curve(tuple(points), *last))
    return curves


@dataclass(frozen=True, kw_only=True)
class InterpolatorConfig:
    """The scale that the score begins with."""

    name: Literal["interpolator"] = "interpolator"
    scale: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Interpolation:
    """A run file of this task; the data are generated and have no settings."""

    task: Literal["interpolation"] = "interpolation"
    data: None = None
    model: InterpolatorConfig = field(default_factory=InterpolatorConfig)
    training: Training = field(default_factory=Training)


def collate(curves: Sequence[Curve]) -> list[Tensor]:
    """Places, points and heights of curves that are known at equally many points."""
    columns = zip(*(([each.place], each.points, [each.height]) for each in curves), strict=True)
    return [torch.tensor(column) for column in columns]


def loss(model: nn.Module, batch: list[Tensor]) -> Tensor:
    """Return the mean square error."""
    place, points, height = batch
    return (model(place, points) - height).square().mean()


def setup(config: Interpolation, folder: RunDirectory, processes: int) -> Setup:
    """Everything that training needs."""
    train, valid = waves(500, "train"), waves(100, "valid")
    objective = regard.Supervised(train=train, valid=valid, collate=collate, loss_of=loss, seed=config.training.seed)
    return Setup(Interpolator(config.model.scale), objective, digest="waves", summary=f"{len(train)} curves")


class InterpolationRun(Run[Curve, TextPrediction]):
    """A trained interpolator."""

    supports = {"predict": (), "evaluate": (), "attribute": ()}

    def __init__(self, config: Interpolation, model: Interpolator) -> None:
        self.config, self.model = config, model

    @classmethod
    def open(cls, folder: RunDirectory, config: Interpolation) -> "InterpolationRun":
        """Return the run in a folder, its model with fresh weights."""
        return cls(config, Interpolator(config.model.scale))

    def parse(self, line: str, place: str = "text 1") -> Curve:
        """`0,0 1.5,1 3,0 at 2`: points, and the place to predict."""
        points, _, last = line.partition(" at ")
        try:
            known = [tuple(map(float, each.split(","))) for each in points.split()]
            return Curve(tuple((x, y) for x, y in known), float(last))
        except ValueError as error:
            raise InputError(f"{place}: {line!r} is no curve; expected points and a place: 0,0 1.5,1 at 2") from error

    @torch.no_grad()
    def _predict(self, examples: Sequence[Curve], options: PredictOptions) -> list[TextPrediction]:
        heights = [self.model(*collate([each])[:2]).item() for each in examples]
        return [TextPrediction(f"{height:.3f}", {"height": height}) for height in heights]

    @torch.no_grad()
    def _evaluate(self, examples: Sequence[Curve] | None, options: EvaluationOptions) -> dict[str, float]:
        return {"error": loss(self.model, collate(waves(1000, "test") if examples is None else examples)).item()}

    def _attribute(self, example: Curve, options: AttributionOptions) -> Attribution:
        with regard.record(self.model) as maps:
            (prediction,) = self._predict([example], PredictOptions())
        points, place = [f"{x:g}, {y:g}" for x, y in example.points], f"at {example.place:g}"
        weights = Alignment(maps["attend"][0].numpy(), tuple(points), (place,))
        return Attribution(prediction, place, (lookups_from_alignment(weights),), weights)


TASK = Task(Interpolation, setup, InterpolationRun)
