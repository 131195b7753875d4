"""Many small decision processes, stepped at once: tensors of what their actions give and where they lead.

A bandit is a process of one state whose episodes have one step. What an agent is given at a step is one vector: where
it is, what it did last, what that gave, and whether an episode begins (Duan 2016, 1611.02779, section 2.2).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor
from torch.nn import functional

from regard.data.batch import Batch
from regard.shapes import Float, Int

PerState = Float[Tensor, "batch state action"]
PerStep = Float[Tensor, "batch step state action"]
Transitions = Float[Tensor, "batch state action next_state"]
Noise = Callable[[Tensor, Generator | None], Tensor]
"""Means -> rewards that have them."""


@dataclass(frozen=True)
class Outcome:
    """What actions led to: what an agent sees of it, and where it is now. `regrets` are of every action that could have
    been taken: by how much it falls behind the best one, expected over all that follows in the episode."""

    seen: Float[Tensor, "batch width"]
    states: Int[Tensor, " batch"]
    rewards: Float[Tensor, " batch"]
    regrets: Float[Tensor, "batch action"]


@dataclass(frozen=True)
class Environments(Batch):
    """Processes in which an agent has `episodes` episodes of `horizon` steps, each from the first state on.

    `means` are of rewards, whose `noise` adds what is drawn; `qualities` are the greatest rewards to be expected
    until the episode ends, for each of its steps. Both are hidden from the agent.
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
        """Of all episodes together."""
        return self.episodes * self.horizon

    @property
    def optimum(self) -> Float[Tensor, " batch"]:
        """The greatest reward that an episode can be expected to give, by somebody who knows the process."""
        return self.qualities[:, 0, 0].amax(-1)

    def start(self) -> Outcome:
        """Before the first action: in the first state, nothing done and nothing had."""
        nothing = self.means.new_zeros(len(self))
        states = torch.zeros(len(self), dtype=torch.int64, device=self.means.device)
        seen = self._seen(states, self.means.new_zeros(len(self), self.means.shape[2]), nothing, begins=True)
        return Outcome(seen, states, nothing, self.means.new_zeros(len(self), self.means.shape[2]))

    def step(
        self, states: Int[Tensor, " batch"], actions: Int[Tensor, " batch"], step: int, random: Generator | None = None
    ) -> Outcome:
        """What the actions at this step, counted from 0 over all episodes, lead to. Draws from `random`, else from
        PyTorch's global generator."""
        rows = torch.arange(len(self), device=states.device)
        rewards = self.noise(self.means[rows, states, actions], random)
        qualities = self.qualities[rows, step % self.horizon, states]
        regrets = qualities.amax(-1, keepdim=True) - qualities
        begins = (step + 1) % self.horizon == 0
        if begins:
            after = torch.zeros_like(states)
        else:
            after = torch.multinomial(self.transitions[rows, states, actions], 1, generator=random)[:, 0]
        done = functional.one_hot(actions, self.means.shape[2]).to(self.means.dtype)
        return Outcome(self._seen(after, done, rewards, begins=begins), after, rewards, regrets)

    def _seen(self, states: Tensor, done: Tensor, rewards: Tensor, *, begins: bool) -> Tensor:
        where = functional.one_hot(states, self.means.shape[1]).to(done.dtype)
        return torch.cat([where, done, rewards[:, None], torch.full_like(rewards[:, None], float(begins))], -1)


def seen_width(states: int, actions: int) -> int:
    """Of what an agent is given at a step."""
    return states + actions + 2


def qualities(means: PerState, transitions: Transitions, horizon: int) -> PerStep:
    """By value iteration, from the last step to the first:

    Q_h(s, a) = r(s, a) + sum_s' p(s' | s, a) max_a' Q_{h+1}(s', a'),  and nothing after the last step
    """
    found, later = [], means.new_zeros(means.shape[:2])
    for _ in range(horizon):
        now = means + torch.einsum("bsan,bn->bsa", transitions, later)
        found.append(now)
        later = now.amax(-1)
    return torch.stack(found[::-1], 1)


def bernoulli(means: Tensor, random: Generator | None) -> Tensor:
    """1 as often as the mean says, else 0."""
    return torch.bernoulli(means, generator=random)


def normal(means: Tensor, random: Generator | None) -> Tensor:
    """With variance 1."""
    return means + torch.randn(means.shape, dtype=means.dtype, device=means.device, generator=random)
