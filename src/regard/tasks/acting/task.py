"""Environments to batches, a loss of what is done in them, and how much of the optimum is reached."""

from collections.abc import Sequence

import torch
from torch import nn

from regard.data.batches import require_one_batch, token_batches
from regard.data.decisions import Decisions
from regard.data.environments import Environments
from regard.inference.acting import Agent, act
from regard.models.actor import Actor
from regard.tasks.acting.run_file import Acting
from regard.training.actor_critic import loss
from regard.training.processes import whole
from regard.training.task import Carried, Loss

ROWS = 200
"""Environments that are acted in together."""
LATE = 10
"""The last of so many parts of the episodes is looked at by itself."""


class ActingTask:
    """Advantage actor-critic. A batch is environments alone: what is done in them is drawn when the loss is asked for,
    by the policy as it is then."""

    metric, higher_is_better = "regret", False

    def __init__(self, actor: Actor, valid: Sequence[Environments], config: Acting):
        """Raises InputError for fewer environments than one batch."""
        self.actor, self.valid, self.config, self.settings = actor, valid, config, config.training
        self.lengths = [(config.data.steps, config.data.steps)] * config.data.train
        require_one_batch(self.lengths, self.settings.batch_tokens, "training environments")

    def batches(self, epoch: int) -> list[list[int]]:
        return token_batches(self.lengths, self.settings.batch_tokens, self.settings.seed, epoch)

    def batch(self, epoch: int, indices: list[int]) -> Environments:
        data = self.config.data
        return data.drawn(len(indices), f"{data.seed}/{self.settings.seed}/{epoch}/{indices[0]}")

    def loss(self, model: nn.Module, batch: Environments, update: int, carried: Carried | None = None) -> Loss:
        with whole(self.actor):
            done = act(self.actor, batch)
        logits, later = model(done.inputs)
        learning = self.config.learning.at(update, self.settings.steps)
        return Loss(loss(logits, later, done.actions, -done.regrets, learning), done.actions.numel())

    def validate(self, model: nn.Module) -> dict[str, float]:
        assert isinstance(model, Actor)
        return figures(model, self.valid, next(model.parameters()).device)


def some(data: Decisions, count: int, name: str) -> list[Environments]:
    """So many environments, in parts that are acted in together."""
    firsts = range(0, count, ROWS)
    return [data.drawn(min(ROWS, count - first), f"{data.seed}/{name}/{first}") for first in firsts]


@torch.no_grad()
def figures(agent: Agent, environments: Sequence[Environments], device: torch.device) -> dict[str, float]:
    """regret: by how much all rewards together fall behind the optimum's, expected of what was done, the mean over
    environments; deviation: its standard error. reward: what was had. share: of the optimum's reward, expected, and
    late-share: that in the last tenth of the episodes, both in per cent. The optimum knows the environment."""
    random, lost, late, had, best, episodes = torch.Generator(device).manual_seed(1), [], [], [], [], 1
    for each in environments:
        done, episodes = act(agent, each.to(device), random), each.episodes
        missed = done.missed.double().unflatten(1, (each.episodes, each.horizon)).sum(-1)
        lost.append(missed.sum(-1))
        late.append(missed[:, -part(each) :].sum(-1))
        had.append(done.rewards.double().sum(-1))
        best.append(each.optimum.double().to(device))
    missed, missed_late, reward, optimum = (torch.cat(parts) for parts in (lost, late, had, best))
    last = part(environments[0])
    return {
        "regret": missed.mean().item(),
        "deviation": (missed.var(correction=0) / len(missed)).sqrt().item(),
        "reward": reward.mean().item(),
        "share": 100 * (1 - missed.sum() / (episodes * optimum.sum())).item(),
        "late-share": 100 * (1 - missed_late.sum() / (last * optimum.sum())).item(),
    }


def part(environments: Environments) -> int:
    """The last tenth of the episodes, at least one."""
    return max(1, environments.episodes // LATE)
