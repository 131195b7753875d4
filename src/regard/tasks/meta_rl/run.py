"""A trained agent: `load(folder).predict(texts)`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from regard.attention.record import record
from regard.attribution.aggregation import single_map
from regard.attribution.kinds import Kind
from regard.errors import InputError
from regard.maps.alignment import Alignment
from regard.models.actor import Actor
from regard.nonfinite import guarded
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution
from regard.tasks.evaluation import for_evaluation
from regard.tasks.meta_rl.config import MetaRL
from regard.tasks.meta_rl.environments import Environments, Trajectories, act
from regard.tasks.meta_rl.training import environments_of, figures
from regard.tasks.options import AttributionOptions, EvaluationOptions, PredictOptions
from regard.tasks.prediction import ShortRepr
from regard.tasks.run import Run

AXES = "down: each action; across: the actions before it, each with its reward"


@dataclass(frozen=True, repr=False)
class ActionPrediction(ShortRepr):
    """A trajectory: the actions, counted from 1; the rewards; `places`, the states before each action, counted from 1;
    and the regret, the expected loss of reward against the optimum."""

    actions: tuple[int, ...]
    rewards: tuple[float, ...]
    places: tuple[int, ...]
    regret: float

    @property
    def text(self) -> str:
        """The actions, with blanks between."""
        return " ".join(map(str, self.actions))

    def lines(self) -> list[str]:
        """The actions."""
        return [self.text]

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return dict(vars(self))


class MetaRLRun(Run[str, ActionPrediction]):
    """A trained agent with its run file. An example describes an environment: `0.2 0.9 0.5`, the probabilities of the
    arms, or `7`, the seed of a process."""

    config: MetaRL
    model: Actor
    supports = {
        "predict": frozenset(),
        "evaluate": frozenset(),
        "attribute": frozenset(),
    }

    def __init__(self, config: MetaRL, model: Actor):
        self.config, self.model = config, model

    @classmethod
    def open(cls, run: RunDirectory, config: MetaRL) -> "MetaRLRun":
        """The run in a folder, its model with fresh weights."""
        return cls(config, config.actor())

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return () if self.config.model.name == "gru" else ("weights",)

    def parse(self, line: str, place: str = "text 1") -> str:
        """The line. Raises InputError where it describes no environment."""
        self.config.data.read(line, place)
        return line

    def record(self, example: str) -> dict[str, Any]:
        return {"environment": example}

    def _evaluate(
        self, examples: Sequence[Environments] | None, options: EvaluationOptions
    ) -> dict[str, float]:
        """The regret, the reward, and its share of the optimum's.

        Raises:
            InputError: there are neither examples nor test environments.
        """
        data = self.config.data
        environments = for_evaluation(
            examples,
            data,
            "set data.test",
            tests=lambda: environments_of(data, data.test, "test"),
            valid=tuple,
        )
        with guarded(self.model):
            return figures(
                self.model, environments, next(self.model.parameters()).device
            )

    def _predict(
        self, examples: Sequence[str], options: PredictOptions
    ) -> list[ActionPrediction]:
        """The trajectory in each environment, always the same for the same text. Raises InputError for a text that
        describes no environment."""
        environments = [
            self.config.data.read(text, f"text {number}")
            for number, text in enumerate(examples, 1)
        ]
        return [prediction(self._act(each), each) for each in environments]

    def _attribute(self, example: str, options: AttributionOptions) -> Attribution:
        """The attention of each action to the steps before it. Raises InputError as `predict`, and for a model that
        does not attend."""
        environment = self.config.data.read(example, "text 1")
        with record(self.model, only=self.model.self_attention) as maps:
            done = self._act(environment)
        if not maps:
            raise InputError(
                f"a model {self.config.model.name} does not attend to anything; there is nothing to show"
            )
        found = prediction(done, environment)
        weights = list(maps.values())[-1][0].double().cpu().numpy()
        what = [
            f"{action}: {reward:.3g}"
            for action, reward in zip(found.actions, found.rewards, strict=True)
        ]
        attention = Alignment(
            weights, ("begin", *what[:-1]), tuple(map(str, found.actions))
        )
        lookups = (single_map(attention, "weights"),)
        return Attribution(found, example, lookups, attention, options, detail=AXES)

    def _act(self, environment: Environments) -> Trajectories:
        device = next(self.model.parameters()).device
        random = torch.Generator(device).manual_seed(1)
        with guarded(self.model):
            return act(self.model, environment.to(device), random)


def prediction(done: Trajectories, environment: Environments) -> ActionPrediction:
    """The prediction of one trajectory."""
    states = done.inputs[0, :, : environment.means.shape[1]].argmax(-1)
    return ActionPrediction(
        tuple((done.actions[0] + 1).tolist()),
        tuple(done.rewards[0].tolist()),
        tuple((states + 1).tolist()),
        done.missed.sum().item(),
    )
