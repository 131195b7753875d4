"""Bandits of five arms: a run of the recipe `bandits` beside agents that count, in the same environments.

`python -m benchmarks.bandits RUN` prints regret in 100 pulls, its standard error and the share of the best reward.
"""

import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benchmarks import report
from regard.runs.run_file import load
from regard.tasks.meta_rl import MetaRLRun, compute_metrics


def choose(scores: Tensor) -> Tensor:
    """Return logits of the highest scores; ties are broken at random."""
    is_highest = scores == scores.amax(-1, keepdim=True)
    return torch.where(is_highest, 0.0, -torch.inf)


@dataclass(frozen=True)
class Counts:
    """How often each arm `(batch, arm)` was pulled, and how often it gave 1."""

    pulls: Tensor
    wins: Tensor


class CountingAgent(ABC):
    """An agent that carries its counts; the first column of its inputs is the only state of a bandit."""

    def __init__(self, arms: int):
        self.arms = arms

    def start(self, batch: int) -> Counts:
        """Return counts of nothing."""
        return Counts(torch.zeros(batch, self.arms), torch.zeros(batch, self.arms))

    def step(self, inputs: Tensor, state: Counts) -> tuple[Tensor, Counts]:
        """Count the last action and its reward, and return the logits of the next action."""
        action, reward = inputs[:, 1 : 1 + self.arms], inputs[:, 1 + self.arms, None]
        state = Counts(state.pulls + action, state.wins + action * reward)
        return self.logits(state), state

    @abstractmethod
    def logits(self, counts: Counts) -> Tensor:
        """Return the logits of the next action."""


class RandomAgent(CountingAgent):
    """Any arm with equal probability."""

    def logits(self, counts: Counts) -> Tensor:
        """Return zeros."""
        return torch.zeros_like(counts.pulls)


class UpperBound(CountingAgent):
    """UCB1: mean + sqrt(2 ln t / n), after each arm once (Auer 2002)."""

    def logits(self, counts: Counts) -> Tensor:
        """Choose the arm with the highest bound."""
        pulls, time = counts.pulls.clamp(min=1), counts.pulls.sum(-1, keepdim=True).clamp(min=1)
        bound = counts.wins / pulls + (2 * time.log() / pulls).sqrt()
        return choose(bound.masked_fill(counts.pulls == 0, torch.inf))


class Thompson(CountingAgent):
    """The arm that is best in a sample from the posterior, from Beta(1, 1) on (Thompson 1933)."""

    def logits(self, counts: Counts) -> Tensor:
        """Choose the arm with the highest sample."""
        return choose(torch.distributions.Beta(counts.wins + 1, counts.pulls - counts.wins + 1).sample())


def main(folder: str) -> None:
    """Print the table."""
    run: Any = load(folder, "cpu", task=MetaRLRun)
    arms = run.config.data.arms
    agents = {
        "random": RandomAgent(arms),
        "UCB1": UpperBound(arms),
        "Thompson sampling": Thompson(arms),
    }
    torch.manual_seed(1)
    tests = run.config.data.tests()
    results = {"SNAIL": run.evaluate()}
    results |= {name: compute_metrics(agent, tests, torch.device("cpu")) for name, agent in agents.items()}
    report.head("agent", "regret", "standard error", "share of the best reward")
    for name, row in results.items():
        report.row(name, f"{row['regret']:.2f}", f"{row['standard-error']:.2f}", f"{row['share']:.1f} %")


if __name__ == "__main__":
    main(sys.argv[1])
