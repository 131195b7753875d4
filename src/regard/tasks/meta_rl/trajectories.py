"""Acting in many environments at once, one step after the other."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Generator, Tensor

from regard.shapes import Float, Int
from regard.tasks.meta_rl.environments import Environments


@runtime_checkable
class Agent(Protocol):
    """What acts: logits of the actions from what is seen, and a state that it carries."""

    def start(self, batch: int) -> Any: ...

    def step(self, inputs: Tensor, state: Any) -> tuple[Tensor, Any]: ...


@dataclass(frozen=True)
class Trajectories:
    """What agents saw before each action, what they did and what it gave. `regrets` are of every action that could have
    been taken there (`Outcome`)."""

    inputs: Float[Tensor, "batch step width"]
    actions: Int[Tensor, "batch step"]
    rewards: Float[Tensor, "batch step"]
    regrets: Float[Tensor, "batch step action"]

    @property
    def missed(self) -> Float[Tensor, "batch step"]:
        """The regret of what was done."""
        return self.regrets.gather(-1, self.actions[..., None])[..., 0]


@torch.no_grad()
def act(agent: Agent, environments: Environments, random: Generator | None = None) -> Trajectories:
    """All episodes. Actions are drawn from the agent's distribution, by `random` or else PyTorch's global generator."""
    now, state = environments.start(), agent.start(len(environments))
    inputs, actions, outcomes = [], [], []
    for step in range(environments.steps):
        logits, state = agent.step(now.seen, state)
        inputs.append(now.seen)
        actions.append(torch.multinomial(logits.softmax(-1), 1, generator=random)[:, 0])
        now = environments.step(now.states, actions[-1], step, random)
        outcomes.append(now)
    rewards, regrets = (torch.stack(each, 1) for each in zip(*((o.rewards, o.regrets) for o in outcomes), strict=True))
    return Trajectories(torch.stack(inputs, 1), torch.stack(actions, 1), rewards, regrets)
