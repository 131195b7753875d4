"""The `data:` section of a meta-RL run file: random bandits and random tabular decision processes
(Duan 2016, 1611.02779, sections 3.1 and 3.2; Mishra 2018, 1707.03141, section 5.2)."""

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Generator

from regard.data.generated.synthetic import Synthetic
from regard.errors import InputError, quoted
from regard.tasks.meta_rl.environments import Environments, bernoulli, normal, qualities

Actions = Annotated[int, Field(ge=2, le=1_000)]
Count = Annotated[int, Field(ge=1, le=10_000)]
Horizon = Annotated[int, Field(ge=1, le=1_000)]
MOST_SEED = 1 << 62


@dataclass(frozen=True, kw_only=True)
class Decisions(Synthetic, ABC):
    """Random environments: an epoch has `train` new ones; `valid` and `test` stay the same."""

    @property
    @abstractmethod
    def sizes_seen(self) -> tuple[int, int]:
        """The number of states and of actions."""

    @property
    @abstractmethod
    def steps(self) -> int:
        """The steps of an agent in an environment."""

    @abstractmethod
    def draw(self, count: int, random: Generator) -> Environments:
        """Sample `count` environments."""

    @abstractmethod
    def read(self, text: str, place: str) -> Environments:
        """The one environment that a text describes. Raises InputError for another text."""

    def sampled(self, count: int, seed: str) -> Environments:
        """Sample `count` environments, as a function of the seed."""
        return self.draw(count, generator(seed))


@dataclass(frozen=True, kw_only=True)
class Bandits(Decisions):
    """Bernoulli bandits: the probabilities of the arms are uniform between 0 and 1."""

    kind: Literal["bandits"] = "bandits"
    arms: Actions = 5
    pulls: Count = 100

    @property
    def sizes_seen(self) -> tuple[int, int]:
        return 1, self.arms

    @property
    def steps(self) -> int:
        return self.pulls

    def draw(self, count: int, random: Generator) -> Environments:
        return self._of(torch.rand(count, self.arms, generator=random))

    def read(self, text: str, place: str) -> Environments:
        """`0.2 0.9 0.5`: the probability of each arm."""
        try:
            found = [float(word) for word in text.split()]
        except ValueError:
            found = []
        if len(found) != self.arms or not all(0 <= each <= 1 for each in found):
            raise InputError(
                f"{place}: {quoted(text)}; expected {self.arms} probabilities with blanks between"
            )
        return self._of(torch.tensor([found]))

    def _of(self, probabilities: torch.Tensor) -> Environments:
        means = probabilities[:, None]
        stays = torch.ones(*means.shape, 1)
        return Environments(
            means, stays, qualities(means, stays, 1), self.pulls, 1, bernoulli
        )


@dataclass(frozen=True, kw_only=True)
class Processes(Decisions):
    """Tabular Markov decision processes. Transitions are sampled from a flat Dirichlet distribution, the means of
    rewards from N(1, 1); rewards have variance 1. Every episode begins in the first state."""

    kind: Literal["processes"] = "processes"
    states: Count = 10
    actions: Actions = 5
    episodes: Count = 10
    horizon: Horizon = 10

    @property
    def sizes_seen(self) -> tuple[int, int]:
        return self.states, self.actions

    @property
    def steps(self) -> int:
        return self.episodes * self.horizon

    def draw(self, count: int, random: Generator) -> Environments:
        means = 1 + torch.randn(count, self.states, self.actions, generator=random)
        # Exponential samples, divided by their sum, are flatly distributed.
        uniform = torch.rand(
            count,
            self.states,
            self.actions,
            self.states,
            dtype=torch.float64,
            generator=random,
        )
        waited = -torch.log1p(-uniform)
        leads = (waited / waited.sum(-1, keepdim=True)).float()
        return Environments(
            means,
            leads,
            qualities(means, leads, self.horizon),
            self.episodes,
            self.horizon,
            normal,
        )

    def read(self, text: str, place: str) -> Environments:
        """`7`: the process of this seed."""
        if not text.strip().isdecimal() or int(text) > MOST_SEED:
            raise InputError(
                f"{place}: {quoted(text)}; expected a whole number, the seed of a process"
            )
        return self.sampled(1, f"read/{int(text)}")


def generator(seed: str) -> Generator:
    """A generator seeded by a text, the same in every process."""
    return Generator().manual_seed(
        int.from_bytes(hashlib.sha256(seed.encode()).digest()[:7], "big")
    )
