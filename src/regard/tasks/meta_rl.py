"""Meta-reinforcement learning: agents that adapt to new bandits.

The arms of a bandit give 1 or 0, each with a hidden probability (Duan 2016, 1611.02779,
section 3.1; Mishra 2018, 1707.03141, section 5.2). Many bandits are played at once as
tensors. Agents learn by advantage actor-critic (Mnih 2016, 1602.01783) with generalized
advantages (Schulman 2016, 1506.02438).
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Generator, Tensor
from torch.nn import functional

from regard.attention.record import record
from regard.attribution.attention import to_single_map
from regard.data.batches import Batch
from regard.data.generated.pairs import IndependentSets, Synthetic
from regard.data.splits import Splits
from regard.maps.alignment import Alignment
from regard.metrics import Metrics
from regard.models.sizes import Probability, Size
from regard.models.snail import ActingSnailConfig, Actor
from regard.shapes import Float, Int
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution
from regard.tasks.base import (
    LineRun,
    Setup,
    TokenBatchObjective,
    digest_bytes,
    setup_task,
)
from regard.tasks.options import AttributionOptions, EvaluationOptions, TextPrediction
from regard.tasks.run import Task, refuse_smoothing
from regard.tasks.summary import DataSummary, Lengths, describe_rows
from regard.training.objectives import Carried, Loss
from regard.training.settings import Amount, Training

BATCH_ROWS = 200
"""Bandits in one batch of evaluation."""
AXES = "down: each action; across: the actions before it, each with its reward"
Actions = Int[Tensor, "batch step"]
PerStep = Float[Tensor, "batch step"]
PerAction = Float[Tensor, "batch step action"]


@dataclass(frozen=True, repr=False)
class Environments(Batch):
    """Bandits, the arms of which are pulled `pulls` times."""

    means: Float[Tensor, "batch action"]
    """The probability that an arm gives 1, hidden from the agent."""
    pulls: int

    @property
    def regrets(self) -> Float[Tensor, "batch action"]:
        """The expected loss of each arm against the best one."""
        return self.means.amax(-1, keepdim=True) - self.means


@dataclass(frozen=True)
class Trajectories:
    """The observation before each action, the action and its reward."""

    inputs: Float[Tensor, "batch step width"]
    actions: Actions
    rewards: PerStep


@torch.no_grad()
def act(
    agent: Any, environments: Environments, random: Generator | None = None
) -> Trajectories:
    """Return the trajectories of an agent.

    An observation is 1, the one-hot last action, its reward, and 1 (Duan 2016, section
    2.2: the only state of a bandit, and that an episode begins).

    Args:
        agent: A policy with `start` and `step` as `Actor` has them, from whose
            distribution actions are sampled.
        environments: The bandits.
        random: A generator, by default PyTorch's global one.
    """
    means = environments.means
    count, arms = means.shape
    last = means.new_zeros(count, arms + 1)
    memory = agent.start(count)
    steps = []
    for _ in range(environments.pulls):
        observation = functional.pad(last, (1, 1), value=1.0)
        logits, memory = agent.step(observation, memory)
        actions = torch.multinomial(logits.softmax(-1), 1, generator=random)
        rewards = torch.bernoulli(means.gather(1, actions), generator=random)
        steps.append((observation, actions[:, 0], rewards[:, 0]))
        last = torch.cat([functional.one_hot(actions[:, 0], arms), rewards], -1)
    return Trajectories(*(torch.stack(part, 1) for part in zip(*steps, strict=True)))


@dataclass(frozen=True, kw_only=True)
class Bandits(IndependentSets, Synthetic):
    """Bernoulli bandits: the probabilities of the arms are uniform between 0 and 1.

    An epoch has `train` new ones; `valid` and `test` are fixed.
    """

    kind: Literal["bandits"] = "bandits"
    arms: Annotated[int, Field(ge=2)] = 5
    pulls: Size = 100

    @property
    def observation_width(self) -> int:
        """The width of an observation."""
        return self.arms + 3

    @property
    def form(self) -> str:
        """What a line is."""
        return f"{self.arms} probabilities separated by spaces"

    def parse(self, line: str) -> Environments:
        """Return the bandit of `0.2 0.9 0.5`: the probability of each arm.

        Raises:
            ValueError: It is another line.
        """
        numbers = list(map(float, line.split()))
        if len(numbers) != self.arms or not all(0 <= n <= 1 for n in numbers):
            raise ValueError(line)
        return Environments(torch.tensor([numbers]), self.pulls)

    def sample_seeded(self, count: int, seed: str) -> Environments:
        """Sample bandits as a function of the seed, the same in every process."""
        number = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:7], "big")
        means = torch.rand(count, self.arms, generator=Generator().manual_seed(number))
        return Environments(means, self.pulls)

    def make(self, name: str) -> list[Environments]:
        """Sample the bandits for validation or test, in batches."""
        count = 0 if name == "train" else getattr(self, name)
        return [
            self.sample_seeded(
                min(BATCH_ROWS, count - first), f"{self.seed}/{name}/{first}"
            )
            for first in range(0, count, BATCH_ROWS)
        ]


@dataclass(frozen=True)
class ActorCritic:
    """The settings of the actor-critic's loss.

    From the first update to the last the discount rises linearly from 0, so that near
    rewards are learned first (François-Lavet 2015, 1512.02011), and the entropy bonus falls
    linearly to `entropy_end`.
    """

    discount: Probability = 0.95
    """Decay rate gamma of the advantages."""
    trace: Probability = 0.3
    """Decay rate lambda of the advantages."""
    entropy: Amount = 0.05
    """Weight of the entropy bonus at the first update."""
    entropy_end: Amount = 0.01
    """Weight of the entropy bonus at the last update."""
    value: Amount = 0.5
    """Weight of the critic's loss beside the policy's."""


def compute_advantages(
    rewards: PerStep, values: PerStep, discount: float, trace: float
) -> PerStep:
    """Compute generalized advantages (Schulman 2016, equations 11 and 16).

    A_t = sum_l (gamma lambda)^l d_{t+l},  d_t = r_t + gamma V_{t+1} - V_t,  0 after the end
    """
    errors = rewards + discount * functional.pad(values[:, 1:], (0, 1)) - values
    advantages = []
    later = torch.zeros_like(errors[:, 0])
    for error in reversed(errors.unbind(1)):
        later = error + discount * trace * later
        advantages.append(later)
    return torch.stack(advantages[::-1], 1)


def compute_loss(
    logits: PerAction,
    later: PerStep,
    actions: Actions,
    rewards: PerAction,
    settings: ActorCritic,
) -> Float[Tensor, ""]:
    """Compute the loss of the rewards of every action, summed over steps.

    -E_t - log pi(a_t) F_t + c_v (W_t - (F_t + W_t))^2 / 2 - c_e H(pi_t)
    E_t = sum_a pi(a) r(a),  V_t = E_t + W_t,  F_t = A_t - r(a_t) + E_t

    The critic's values W_t are of the rewards later than the step. V_t, F_t and the
    critic's target have no gradient. F_t is the advantage of the action at later steps: the
    step's own part is summed over actions instead of sampled (Asadi 2017, 1709.00503). The
    expected gradient is that of -log pi(a_t) A_t.
    """
    logs = logits.log_softmax(-1)
    received = rewards.gather(-1, actions[..., None])[..., 0]
    expected = (logs.exp() * rewards).sum(-1)
    values = (expected + later).detach()
    advantages = compute_advantages(received, values, settings.discount, settings.trace)
    advantages = advantages - received + expected.detach()
    errors = (later - (advantages + later.detach())).square() / 2
    entropy = -(logs.exp() * logs).sum(-1)
    policy = logs.gather(-1, actions[..., None])[..., 0] * advantages
    losses = settings.value * errors - policy - settings.entropy * entropy
    return (losses - expected).sum()


@dataclass(frozen=True, kw_only=True)
class MetaRL:
    """A run file. A batch has room for `training.batch_tokens` steps."""

    task: Literal["meta-rl"] = "meta-rl"
    data: Bandits
    model: ActingSnailConfig = field(default_factory=ActingSnailConfig)
    learning: ActorCritic = field(default_factory=ActorCritic)
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        refuse_smoothing(self.training)


class MetaRLObjective(TokenBatchObjective[int, Environments]):
    """Advantage actor-critic over environments that are sampled for each batch.

    The loss samples trajectories from the current policy.
    """

    metric = "regret"
    higher_is_better = False

    def __init__(self, config: MetaRL, valid: Sequence[Environments]) -> None:
        self.config = config
        data = config.data
        super().__init__(
            range(data.train),
            valid,
            config.training,
            [(data.pulls, data.pulls)] * data.train,
            "environments",
            run=partial(MetaRLRun, config),
        )

    def batch(self, epoch: int, indices: list[int]) -> Environments:
        data = self.config.data
        seed = f"{data.seed}/{self.settings.seed}/{epoch}/{indices[0]}"
        return data.sample_seeded(len(indices), seed)

    def loss(
        self,
        model: Any,
        batch: Environments,
        update: int,
        carried: Carried | None = None,
    ) -> Loss:
        trajectories = act(model, batch)
        actions = trajectories.actions
        learning = self.config.learning
        share = (update - 1) / max(1, self.settings.steps - 1)
        entropy = learning.entropy + (learning.entropy_end - learning.entropy) * share
        discount = learning.discount * share
        settings = replace(learning, discount=discount, entropy=entropy)
        rewards = -batch.regrets[:, None].repeat(1, batch.pulls, 1)
        logits, values = model(trajectories.inputs)
        total = compute_loss(logits, values, actions, rewards, settings)
        return Loss(total, actions.numel())


def setup(config: MetaRL, folder: RunDirectory, processes: int) -> Setup:
    """Sample the environments for validation and test, and build model and objective.

    Raises:
        InputError: There are too few environments.
    """
    data = config.data
    splits = data.load()
    sets = Splits(*map(range, data.sizes))
    return setup_task(
        MetaRLRun.build(config),
        MetaRLObjective(config, splits.valid),
        sets,
        digest_bytes(
            means.numpy().tobytes() + torch.ones_like(means).numpy().tobytes()
            for means in (batch.means for batch in splits.valid)
        ),
        DataSummary(
            unit="environments",
            rows=describe_rows(data, sets),
            lengths={"environment in steps": Lengths.of([data.pulls])},
        ),
        details=[f"{data.pulls} steps in each"],
        tests=splits.test,
    )


@torch.no_grad()
def compute_metrics(
    agent: Any, batches: Sequence[Environments], device: torch.device
) -> Metrics:
    """Return the metrics of an agent against the optimum, which knows the environment.

    Returns:
        regret: Expected loss of all rewards, the mean over environments.
        standard-error: Of that mean.
        reward: Sum of rewards.
        share: Probability of the optimum's expected reward, in percent.
        late-share: The same in the last tenth of the steps.
    """
    random = torch.Generator(device).manual_seed(1)
    results = []
    for environments in batches:
        environments = environments.to(device)
        trajectories = act(agent, environments, random)
        by_step = environments.regrets.gather(1, trajectories.actions).double()
        rewards = trajectories.rewards.double().sum(-1)
        optima = environments.means.amax(-1).double()
        results.append((by_step, rewards, optima))
    by_step, rewards, optima = map(torch.cat, zip(*results, strict=True))
    regret = by_step.sum(-1)
    steps = by_step.shape[1]
    late = max(1, steps // 10)

    def share(regrets: Tensor, steps: int) -> float:
        return 100 * (1 - regrets.sum() / (steps * optima.sum())).item()

    return {
        "regret": regret.mean().item(),
        "standard-error": (regret.var(correction=0) / len(regret)).sqrt().item(),
        "reward": rewards.mean().item(),
        "share": share(regret, steps),
        "late-share": share(by_step[:, -late:], late),
    }


class MetaRLRun(LineRun):
    """A trained agent: `load(folder).predict(texts)`.

    An example is a bandit: `0.2 0.9 0.5`, the probabilities of the arms.
    """

    config: MetaRL
    model: Actor
    key = "environment"

    @staticmethod
    def build(config: MetaRL) -> Actor:
        data = config.data
        return Actor(data.observation_width, data.arms, data.pulls, config.model)

    def compute_metrics(
        self, examples: Sequence[Environments], options: EvaluationOptions
    ) -> Metrics:
        return compute_metrics(self.model, examples, self.device)

    def predict_examples(
        self, examples: Sequence[Environments]
    ) -> list[TextPrediction]:
        """Return the actions in each environment, counted from 1, the same at every call."""
        predictions = []
        for example in examples:
            environment = example.to(self.device)
            random = torch.Generator(self.device).manual_seed(1)
            trajectories = act(self.model, environment, random)
            actions = trajectories.actions
            values = {
                "actions": (actions[0] + 1).tolist(),
                "rewards": trajectories.rewards[0].tolist(),
                "regret": environment.regrets.gather(1, actions).sum().item(),
            }
            text = " ".join(map(str, values["actions"]))
            predictions.append(TextPrediction(text, values))
        return predictions

    def _attribute(self, example: str, options: AttributionOptions) -> Attribution:
        """Return the attention of each action to the steps before it."""
        environment = self.read_line(example, "text 1")
        with record(self.model, only=self.model.self_attention) as maps:
            (prediction,) = self.predict_examples([environment])
        weights = list(maps.values())[-1][0].double().cpu().numpy()
        actions = prediction.text.split()
        labels = ["begin"]
        for action, reward in zip(actions, prediction.values["rewards"], strict=True):
            labels.append(f"{action}: {reward:.3g}")
        attention = Alignment(weights, tuple(labels[:-1]), tuple(actions))
        lookups = (to_single_map(attention, "weights"),)
        return Attribution(
            prediction, example, lookups, attention, options, detail=AXES
        )


TASK = Task(MetaRL, setup, MetaRLRun)
