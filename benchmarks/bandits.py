"""The recipes `bandits` and `mdps` beside what is known to do well: regret in 100 pulls of five arms, and how much of
the optimum's reward ten episodes in a process of three states give. All act in the same environments.

`python -m benchmarks.bandits [bandits | mdps]`, by default both. `exploring` in their place trains nothing: how much of
the optimum is within reach of somebody who must find out first, by how long there is.
"""

import json
import sys
from collections.abc import Mapping
from typing import Any

import torch

from benchmarks import report
from benchmarks.agents import EpsilonGreedy, Gittins, PosteriorSampling, Random, Thompson, UpperBound
from regard.runs.load import load
from regard.tasks.meta_rl.config import MetaRL
from regard.tasks.meta_rl.data import Processes
from regard.tasks.meta_rl.environments import Agent
from regard.tasks.meta_rl.run import MetaRLRun
from regard.tasks.meta_rl.training import environments_of, figures

SETTINGS = ["training.seed=1", "data.seed=1", "training.threads=1"]

LONGER = (10, 5), (20, 5), (40, 5), (80, 5), (25, 10)
"""Episodes, and steps in each."""


def rivals(config: MetaRL) -> Mapping[str, Agent]:
    """What SNAIL is compared with."""
    states, actions = config.data.sizes_seen
    if config.data.kind == "bandits":
        return {
            "random": Random(actions),
            "epsilon-greedy, 0.1": EpsilonGreedy(actions, 0.1),
            "UCB1": UpperBound(actions),
            "Thompson sampling": Thompson(actions),
            "Gittins, finite horizon": Gittins(actions, config.data.steps),
        }
    assert config.data.kind == "processes"
    return {
        "random": Random(actions),
        "PSRL": PosteriorSampling(states, actions, config.data.horizon),
        "optimistic PSRL, 5 draws": PosteriorSampling(states, actions, config.data.horizon, draws=5),
    }


def measure(recipe: str) -> list[dict[str, Any]]:
    """A row an agent."""
    folder = report.trained(recipe, f"{recipe}-snail-1", SETTINGS)
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    run = load(folder, "cpu", task=MetaRLRun)
    rows: list[dict[str, Any]] = [{"agent": "SNAIL", **run.evaluate(), "seconds": result["seconds"]}]
    torch.manual_seed(1)
    tests = environments_of(run.config.data, run.config.data.test, "test")
    for name, agent in rivals(run.config).items():
        rows.append({"agent": name, **figures(agent, tests, torch.device("cpu"))})
    return [{"recipe": recipe, **row} for row in rows]


def exploring() -> None:
    """Optimistic PSRL, which knows what processes are drawn from, in 200 processes of the recipe `mdps`."""
    report.head("episodes", "steps", "share of the optimum", "share in the last tenth")
    for episodes, horizon in LONGER:
        data = Processes(states=3, actions=3, episodes=episodes, horizon=horizon)
        torch.manual_seed(1)
        agent = PosteriorSampling(data.states, data.actions, horizon, draws=5)
        found = figures(agent, environments_of(data, 200, "test"), torch.device("cpu"))
        report.row(episodes, horizon, *(f"{found[name]:.1f} %" for name in ("share", "late-share")))


def main(*recipes: str) -> None:
    """Trains what is missing, then prints the table."""
    if recipes == ("exploring",):
        return exploring()
    report.head("recipe", "agent", "regret", "its standard error", "share of the optimum", "share in the last tenth")
    rows = []
    for recipe in recipes or ("bandits", "mdps"):
        for row in measure(recipe):
            shares = [f"{row[name]:.1f} %" for name in ("share", "late-share")]
            report.row(recipe, row["agent"], f"{row['regret']:.2f}", f"{row['standard-error']:.2f}", *shares)
            rows.append(row)
    if not recipes:
        command = f"{' '.join(f'--set {each}' for each in SETTINGS)}"
        report.write("bandits", rows, seed=1, settings=command, command="python -m benchmarks.bandits")


if __name__ == "__main__":
    main(*sys.argv[1:])
