"""How much of the optimum is reached in environments."""

from collections.abc import Sequence

import torch

from regard.tasks.meta_rl.data import Decisions
from regard.tasks.meta_rl.environments import Environments
from regard.tasks.meta_rl.trajectories import Agent, act

ROWS = 200
"""Environments that are acted in together."""
LATE = 10
"""The last of so many parts of the episodes is looked at by itself."""


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
