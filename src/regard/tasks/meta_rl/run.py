"""A trained agent, opened: `load(folder).predict(texts)`."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from regard.attention.record import record
from regard.errors import InputError
from regard.maps.alignment import Alignment
from regard.models.actor import Actor
from regard.nonfinite import guarded
from regard.storage.run_folder import RunDirectory
from regard.tasks.meta_rl.config import MetaRL
from regard.tasks.meta_rl.environments import Environments
from regard.tasks.meta_rl.metrics import figures, some
from regard.tasks.meta_rl.trajectories import Trajectories, act
from regard.tasks.run import Run, refuse_one_text


@dataclass(frozen=True)
class Acted:
    """What was done in one environment: the actions, counted from 1, the rewards, and by how much these fall behind the
    optimum's, expected of what was done. `places` are the states before each action, counted from 1."""

    actions: tuple[int, ...]
    rewards: tuple[float, ...]
    places: tuple[int, ...]
    regret: float

    @property
    def text(self) -> str:
        """The actions, blanks between."""
        return " ".join(map(str, self.actions))


class MetaRLRun(Run):
    """A trained agent with its run file."""

    def __init__(self, config: MetaRL, model: Actor):
        self.config, self.model = config, model

    @classmethod
    def open(cls, run: RunDirectory, config: MetaRL) -> "MetaRLRun":
        """The run in a folder, its model with fresh weights."""
        return cls(config, config.actor())

    def evaluate(self, examples: Sequence[Environments] | None = None) -> dict[str, float]:
        """How much of the optimum is reached, by default in the run's own test environments.

        Raises:
            InputError: the run has no test environments and none are given.
        """
        data = self.config.data
        given = some(data, data.test, "test") if examples is None else examples
        if not given:
            raise InputError("there is no test set in the run file and no environments are given; set data.test")
        with guarded(self.model):
            return figures(self.model, given, next(self.model.parameters()).device)

    def predict(self, texts: Sequence[str]) -> list[Acted]:
        """What the agent does in each environment: `0.2 0.9 0.5`, the arms' probabilities, or `7`, the seed that a
        process is drawn from. The same text gives the same.

        Raises:
            TypeError: `texts` is one text; put it in a list.
            InputError: a text describes no environment.
        """
        refuse_one_text(texts)
        read = [self.config.data.read(text, f"text {number}") for number, text in enumerate(texts, 1)]
        return [acted(self._act(each), each) for each in read]

    def look(self, text: str) -> tuple[Acted, Alignment]:
        """What the agent does, and how much it looked at each step so far to decide it. Raises InputError as `predict`
        does, and where the model looks nothing up."""
        environment = self.config.data.read(text, "text 1")
        with record(self.model, only=self.model.self_attention) as maps:
            done = self._act(environment)
        if not maps:
            raise InputError(f"a model {self.config.model.name} looks nothing up; there is nothing to show")
        found = acted(done, environment)
        weights = list(maps.values())[-1][0].double().cpu().numpy()
        what = [f"{action}: {reward:.3g}" for action, reward in zip(found.actions, found.rewards, strict=True)]
        return found, Alignment(weights, ("begin", *what[:-1]), tuple(map(str, found.actions)))

    def _act(self, environment: Environments) -> Trajectories:
        device = next(self.model.parameters()).device
        random = torch.Generator(device).manual_seed(1)
        with guarded(self.model):
            return act(self.model, environment.to(device), random)


def acted(done: Trajectories, environment: Environments) -> Acted:
    """The one trajectory, as numbers."""
    states = done.inputs[0, :, : environment.means.shape[1]].argmax(-1)
    return Acted(
        tuple((done.actions[0] + 1).tolist()),
        tuple(done.rewards[0].tolist()),
        tuple((states + 1).tolist()),
        done.missed.sum().item(),
    )
