"""Training of agents: environments in batches, the loss of trajectories and the metrics."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from regard.data.token_batches import batch_size, token_batches
from regard.models.actor import Actor
from regard.tasks.meta_rl.actor_critic import ActorCritic, loss, loss_of_sampled
from regard.tasks.meta_rl.config import MetaRL
from regard.tasks.meta_rl.data import Decisions
from regard.tasks.meta_rl.environments import Agent, Environments, Trajectories, act
from regard.training.objective import Carried, Loss


def by_regret(
    logits: Tensor, later: Tensor, done: Trajectories, learning: ActorCritic
) -> Tensor:
    """Learn from the regrets of all actions."""
    return loss(logits, later, done.actions, -done.regrets, learning)


def by_reward(
    logits: Tensor, values: Tensor, done: Trajectories, learning: ActorCritic
) -> Tensor:
    """Learn from the sampled rewards only."""
    return loss_of_sampled(logits, values, done.actions, done.rewards, learning)


SIGNALS: Mapping[str, Callable[[Tensor, Tensor, Trajectories, ActorCritic], Tensor]] = {
    "regret": by_regret,
    "reward": by_reward,
}
"""The losses by `learning.signal`."""
ROWS = 200
"""Environments in one batch of evaluation."""
LATE = 10
"""The number of parts of the episodes; the last has a metric of its own."""


class MetaRLObjective:
    """Advantage actor-critic. A batch has environments only: the loss samples trajectories from the current policy."""

    metric, higher_is_better = "regret", False

    def __init__(self, actor: Actor, valid: Sequence[Environments], config: MetaRL):
        """Raises InputError for no environments."""
        self.actor, self.valid, self.config, self.settings = (
            actor,
            valid,
            config,
            config.training,
        )
        self.lengths = [(config.data.steps, config.data.steps)] * config.data.train
        self.tokens = batch_size(
            self.lengths, self.settings.batch_tokens, "training environments"
        )

    def batches(self, epoch: int) -> Sequence[list[int]]:
        return token_batches(self.lengths, self.tokens, self.settings.seed, epoch)

    def batch(self, epoch: int, indices: list[int]) -> Environments:
        data = self.config.data
        return data.sampled(
            len(indices), f"{data.seed}/{self.settings.seed}/{epoch}/{indices[0]}"
        )

    def loss(
        self,
        model: nn.Module,
        batch: Environments,
        update: int,
        carried: Carried | None = None,
    ) -> Loss:
        done = act(self.actor, batch)
        logits, guesses = model(done.inputs)
        learning = self.config.learning.at(update, self.settings.steps)
        return Loss(
            SIGNALS[learning.signal](logits, guesses, done, learning),
            done.actions.numel(),
        )

    def validate(self, model: nn.Module) -> dict[str, float]:
        assert isinstance(model, Actor)
        return figures(model, self.valid, next(model.parameters()).device)


def environments_of(data: Decisions, count: int, name: str) -> list[Environments]:
    """`count` environments in batches."""
    firsts = range(0, count, ROWS)
    return [
        data.sampled(min(ROWS, count - first), f"{data.seed}/{name}/{first}")
        for first in firsts
    ]


@torch.no_grad()
def figures(
    agent: Agent, environments: Sequence[Environments], device: torch.device
) -> dict[str, float]:
    """regret: the expected loss of all rewards against the optimum, the mean over environments; standard-error: of
    that mean. reward: the sum of rewards. share: the share of the optimum's reward, in expectation, and late-share:
    that in the last tenth of the episodes, both in per cent. The optimum knows the environment."""
    random, lost, late, earned, best, episodes = (
        torch.Generator(device).manual_seed(1),
        [],
        [],
        [],
        [],
        1,
    )
    for each in environments:
        done, episodes = act(agent, each.to(device), random), each.episodes
        missed = (
            done.missed.double().unflatten(1, (each.episodes, each.horizon)).sum(-1)
        )
        lost.append(missed.sum(-1))
        late.append(missed[:, -part(each) :].sum(-1))
        earned.append(done.rewards.double().sum(-1))
        best.append(each.optimum.double().to(device))
    missed, missed_late, reward, optimum = (
        torch.cat(parts) for parts in (lost, late, earned, best)
    )
    last = part(environments[0])
    return {
        "regret": missed.mean().item(),
        "standard-error": (missed.var(correction=0) / len(missed)).sqrt().item(),
        "reward": reward.mean().item(),
        "share": 100 * (1 - missed.sum() / (episodes * optimum.sum())).item(),
        "late-share": 100 * (1 - missed_late.sum() / (last * optimum.sum())).item(),
    }


def part(environments: Environments) -> int:
    """The number of episodes in the last tenth, at least 1."""
    return max(1, environments.episodes // LATE)
