"""Many small decision processes, stepped at once as tensors of rewards and transitions, and the trajectories of agents.

A bandit is a process of one state whose episodes have one step. An observation is one vector: the state, the last
action, its reward, and whether an episode begins (Duan 2016, 1611.02779, section 2.2).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Generator, Tensor
from torch.nn import functional

from regard.data.batching import Batch
from regard.shapes import Float, Int

PerState = Float[Tensor, "batch state action"]
PerStep = Float[Tensor, "batch step state action"]
Transitions = Float[Tensor, "batch state action next_state"]
Noise = Callable[[Tensor, Generator | None], Tensor]
"""Samples rewards with these means."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of an action: the next observation and state. `regrets` are the expected loss of every action against
    the best one, over the rest of the episode."""

    seen: Float[Tensor, "batch width"]
    states: Int[Tensor, " batch"]
    rewards: Float[Tensor, " batch"]
    regrets: Float[Tensor, "batch action"]


@dataclass(frozen=True, repr=False)
class Environments(Batch):
    """Processes of `episodes` episodes of `horizon` steps, each from the first state.

    `noise` samples rewards around their `means`; `qualities` are the optimal expected rewards until the episode ends,
    for each of its steps. Both are hidden from the agent.
    """

    means: PerState
    transitions: Transitions
    qualities: PerStep
    episodes: int
    horizon: int
    noise: Noise

    def __len__(self) -> int:
        return len(self.means)

    @property
    def steps(self) -> int:
        """The steps of all episodes."""
        return self.episodes * self.horizon

    @property
    def optimum(self) -> Float[Tensor, " batch"]:
        """The expected reward of an episode under the best policy, which knows the process."""
        return self.qualities[:, 0, 0].amax(-1)

    def start(self) -> Outcome:
        """The outcome before the first action: the first state, no action and no reward."""
        nothing = self.means.new_zeros(len(self))
        states = torch.zeros(len(self), dtype=torch.int64, device=self.means.device)
        seen = self._seen(
            states,
            self.means.new_zeros(len(self), self.means.shape[2]),
            nothing,
            begins=True,
        )
        return Outcome(
            seen, states, nothing, self.means.new_zeros(len(self), self.means.shape[2])
        )

    def step(
        self,
        states: Int[Tensor, " batch"],
        actions: Int[Tensor, " batch"],
        step: int,
        random: Generator | None = None,
    ) -> Outcome:
        """The outcome of the actions at this step, counted from 0 over all episodes. Samples from `random`, else from
        PyTorch's global generator."""
        rows = torch.arange(len(self), device=states.device)
        rewards = self.noise(self.means[rows, states, actions], random)
        qualities = self.qualities[rows, step % self.horizon, states]
        regrets = qualities.amax(-1, keepdim=True) - qualities
        begins = (step + 1) % self.horizon == 0
        if begins:
            after = torch.zeros_like(states)
        else:
            after = torch.multinomial(
                self.transitions[rows, states, actions], 1, generator=random
            )[:, 0]
        done = functional.one_hot(actions, self.means.shape[2]).to(self.means.dtype)
        return Outcome(
            self._seen(after, done, rewards, begins=begins), after, rewards, regrets
        )

    def _seen(
        self, states: Tensor, done: Tensor, rewards: Tensor, *, begins: bool
    ) -> Tensor:
        where = functional.one_hot(states, self.means.shape[1]).to(done.dtype)
        return torch.cat(
            [
                where,
                done,
                rewards[:, None],
                torch.full_like(rewards[:, None], float(begins)),
            ],
            -1,
        )


@runtime_checkable
class Agent(Protocol):
    """A policy: from an observation and its state to the logits of the actions and the next state."""

    def start(self, batch: int) -> Any: ...

    def step(self, inputs: Tensor, state: Any) -> tuple[Tensor, Any]: ...


@dataclass(frozen=True)
class Trajectories:
    """The observation before each action, the action and its reward. `regrets` are those of every action
    (`Outcome`)."""

    inputs: Float[Tensor, "batch step width"]
    actions: Int[Tensor, "batch step"]
    rewards: Float[Tensor, "batch step"]
    regrets: Float[Tensor, "batch step action"]

    @property
    def missed(self) -> Float[Tensor, "batch step"]:
        """The regret of the action."""
        return self.regrets.gather(-1, self.actions[..., None])[..., 0]


@torch.no_grad()
def act(
    agent: Agent, environments: Environments, random: Generator | None = None
) -> Trajectories:
    """The trajectories of all episodes. Actions are sampled from the agent's distribution, by `random` or else by
    PyTorch's global generator."""
    now, state = environments.start(), agent.start(len(environments))
    inputs, actions, outcomes = [], [], []
    for step in range(environments.steps):
        logits, state = agent.step(now.seen, state)
        inputs.append(now.seen)
        actions.append(torch.multinomial(logits.softmax(-1), 1, generator=random)[:, 0])
        now = environments.step(now.states, actions[-1], step, random)
        outcomes.append(now)
    rewards, regrets = (
        torch.stack(each, 1)
        for each in zip(*((o.rewards, o.regrets) for o in outcomes), strict=True)
    )
    return Trajectories(
        torch.stack(inputs, 1), torch.stack(actions, 1), rewards, regrets
    )


def seen_width(states: int, actions: int) -> int:
    """The width of an observation."""
    return states + actions + 2


def qualities(means: PerState, transitions: Transitions, horizon: int) -> PerStep:
    """The optimal action values by value iteration, from the last step to the first:

    Q_h(s, a) = r(s, a) + sum_s' p(s' | s, a) max_a' Q_{h+1}(s', a'),  and nothing after the last step
    """
    found, later = [], means.new_zeros(means.shape[:2])
    for _ in range(horizon):
        now = means + torch.einsum("bsan,bn->bsa", transitions, later)
        found.append(now)
        later = now.amax(-1)
    return torch.stack(found[::-1], 1)


def bernoulli(means: Tensor, random: Generator | None) -> Tensor:
    """Sample 1 with the mean as its probability, else 0."""
    return torch.bernoulli(means, generator=random)


def normal(means: Tensor, random: Generator | None) -> Tensor:
    """Sample from normal distributions of variance 1."""
    return means + torch.randn(
        means.shape, dtype=means.dtype, device=means.device, generator=random
    )
