"""Agents that act by counting: what a learned one is compared with. Each is given what `Environments` shows of a step,
and carries its counts; its logits are 0 for what it chooses and minus infinity elsewhere."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from regard.tasks.meta_rl.environments import qualities


def chosen(scores: Tensor) -> Tensor:
    """Logits of whatever scores highest, ties broken at random."""
    tied = scores == scores.amax(-1, keepdim=True)
    return torch.where(tied, 0.0, -torch.inf)


@dataclass(frozen=True)
class Counts:
    """How often each arm `(batch, arm)` was pulled, and how often it gave 1."""

    pulled: Tensor
    won: Tensor


class Arms(ABC):
    """What the agents of bandits share: they count. Of the columns of what is seen the first is the only state."""

    def __init__(self, arms: int):
        self.arms = arms

    def start(self, batch: int) -> Counts:
        return Counts(torch.zeros(batch, self.arms), torch.zeros(batch, self.arms))

    def step(self, inputs: Tensor, state: Counts) -> tuple[Tensor, Counts]:
        done, reward = inputs[:, 1 : 1 + self.arms], inputs[:, 1 + self.arms, None]
        state = Counts(state.pulled + done, state.won + done * reward)
        return self.logits(state), state

    @abstractmethod
    def logits(self, counts: Counts) -> Tensor:
        """By what was counted."""


class Random:
    """Any action is as likely."""

    def __init__(self, actions: int):
        self.actions = actions

    def start(self, batch: int) -> None:
        return None

    def step(self, inputs: Tensor, state: None) -> tuple[Tensor, None]:
        return torch.zeros(len(inputs), self.actions), state


class UpperBound(Arms):
    """UCB1: mean + sqrt(2 ln t / n), every arm once before (Auer 2002)."""

    def logits(self, counts: Counts) -> Tensor:
        time = counts.pulled.sum(-1, keepdim=True)
        width = (2 * time.clamp(min=1).log() / counts.pulled.clamp(min=1)).sqrt()
        bound = counts.won / counts.pulled.clamp(min=1) + width
        return chosen(bound.masked_fill(counts.pulled == 0, torch.inf))


class EpsilonGreedy(Arms):
    """The arm of the highest posterior mean, from Beta(1, 1) on; with a small chance any."""

    def __init__(self, arms: int, chance: float):
        super().__init__(arms)
        self.chance = chance

    def logits(self, counts: Counts) -> Tensor:
        best = chosen((counts.won + 1) / (counts.pulled + 2)).softmax(-1)
        return ((1 - self.chance) * best + self.chance / self.arms).log()


class Thompson(Arms):
    """The arm that is best in a draw from the posterior, from Beta(1, 1) on (Thompson 1933)."""

    def logits(self, counts: Counts) -> Tensor:
        return chosen(torch.distributions.Beta(counts.won + 1, counts.pulled - counts.won + 1).sample())


class Gittins(Arms):
    """The arm of the highest index: the constant reward at which, with as many pulls left, it is as good to leave an
    arm for good as to pull it on (Gittins 1979; its finite horizon as in Kaufmann 2018, 1601.06650)."""

    def __init__(self, arms: int, pulls: int, levels: int = 200):
        super().__init__(arms)
        self.pulls, self.table = pulls, indices(pulls, levels)

    def logits(self, counts: Counts) -> Tensor:
        left = self.pulls - int(counts.pulled[0].sum())
        return chosen(self.table[left, counts.won.long(), (counts.pulled - counts.won).long()])


def indices(pulls: int, levels: int) -> Tensor:
    """`(left, won, lost)`: the highest of so many constant rewards at which pulling on is worth more than leaving.

    V_m(w, l) = max(0, p - c + p V_{m-1}(w + 1, l) + (1 - p) V_{m-1}(w, l + 1)),  p = (w + 1) / (w + l + 2)
    """
    won, lost = torch.meshgrid(torch.arange(pulls + 1.0), torch.arange(pulls + 1.0), indexing="ij")
    mean = (won + 1) / (won + lost + 2)
    found = torch.zeros(pulls + 1, pulls + 1, pulls + 1)
    for level in torch.arange(1, levels + 1) / (levels + 1):
        value = torch.zeros(pulls + 2, pulls + 2)
        for left in range(1, pulls + 1):
            going_on = mean - level + mean * value[1:, :-1] + (1 - mean) * value[:-1, 1:]
            found[left] = torch.where(going_on > 0, level, found[left])
            value[:-1, :-1] = going_on.clamp(min=0)
    return found


@dataclass(frozen=True)
class Known:
    """What was seen of processes: moves `(batch, state, action, state)`, rewards and how many of them `(batch, state,
    action)`, where the agent was `(batch,)`, the step in the episode, and what it does in this one."""

    moves: Tensor
    rewards: Tensor
    count: Tensor
    was: Tensor
    step: int
    plan: Tensor


class PosteriorSampling:
    """PSRL: a process is drawn from the posterior at the beginning of every episode, and its best policy followed
    (Strens 2000; Osband 2013, 1306.0940). The prior is what environments are drawn from. With several `draws` an action
    is worth as much as in the most hopeful of them (optimistic PSRL, Osband and Van Roy 2017, 1607.00215)."""

    def __init__(self, states: int, actions: int, horizon: int, draws: int = 1):
        self.states, self.actions, self.horizon, self.draws = states, actions, horizon, draws

    def start(self, batch: int) -> Known:
        pairs = torch.zeros(batch, self.states, self.actions)
        moves = torch.zeros(batch, self.states, self.actions, self.states)
        nowhere = torch.zeros(batch, dtype=torch.int64)
        return Known(moves, pairs, pairs, nowhere, 0, torch.zeros(batch, self.horizon, self.states, self.actions))

    def step(self, inputs: Tensor, state: Known) -> tuple[Tensor, Known]:
        where, done, rest = inputs.split([self.states, self.actions, 2], -1)
        before = functional.one_hot(state.was, self.states).float()
        pair = torch.einsum("bs,ba->bsa", before, done)
        rewards, count = state.rewards + pair * rest[:, :1, None], state.count + pair
        begins = state.step % self.horizon == 0
        # An episode's last step leads nowhere.
        moves = state.moves if begins else state.moves + torch.einsum("bsa,bn->bsan", pair, where)
        plan = self.planned(moves, rewards, count) if begins else state.plan
        now = where.argmax(-1)
        value = plan[torch.arange(len(now)), state.step % self.horizon, now]
        return chosen(value), Known(moves, rewards, count, now, state.step + 1, plan)

    def planned(self, moves: Tensor, rewards: Tensor, count: Tensor) -> Tensor:
        """`(batch, step, state, action)`: what actions are worth in a process, or the best of several, drawn."""
        drawn = []
        for _ in range(self.draws):
            leads = torch.distributions.Dirichlet(moves + 1).sample()
            means = (1 + rewards + torch.randn_like(rewards) * (1 + count).sqrt()) / (1 + count)
            drawn.append(qualities(means, leads, self.horizon))
        return torch.stack(drawn).amax(0)
