"""Meta-reinforcement learning: agents that adapt to new bandits and decision processes.

The environments are random Bernoulli bandits and random tabular Markov decision processes
(Duan 2016, 1611.02779, sections 3.1 and 3.2; Mishra 2018, 1707.03141, section 5.2), many of
which are stepped at once as tensors. A bandit is a process of one state whose episodes have
one step. Agents learn by advantage actor-critic (Mnih 2016, 1602.01783) with generalized
advantages (Schulman 2016, 1506.02438).
"""

import hashlib
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Generator, Tensor
from torch.nn import functional

from regard.attention.record import record
from regard.attribution.aggregation import to_single_map
from regard.data.batches import Batch
from regard.data.generated.pairs import IndependentSets, Synthetic
from regard.data.splits import Splits
from regard.maps.alignment import Alignment
from regard.models.sizes import Size
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
from regard.tasks.options import AttributionOptions, EvaluationOptions
from regard.tasks.prediction import TextPrediction
from regard.tasks.run import LazyTask, refuse_smoothing
from regard.tasks.summary import DataSummary, Lengths, describe_rows
from regard.training.objectives import Carried, Loss
from regard.training.settings import Amount, Training

TASK = LazyTask(__name__, ":MetaRL", ":setup", ":MetaRLRun")
BATCH_ROWS = 200
"""Environments in one batch of evaluation."""
LARGEST_SEED = 1 << 62
AXES = "down: each action; across: the actions before it, each with its reward"
ActionCount = Annotated[int, Field(ge=2)]
Share = Annotated[float, Field(ge=0, le=1)]
Means = Float[Tensor, "batch state action"]
Transitions = Float[Tensor, "batch state action next_state"]
ActionValues = Float[Tensor, "batch step state action"]
Indices = Int[Tensor, " batch"]
Rewards = Float[Tensor, " batch"]
Actions = Int[Tensor, "batch step"]
PerStep = Float[Tensor, "batch step"]
PerAction = Float[Tensor, "batch step action"]


@dataclass(frozen=True, repr=False)
class Environments(Batch):
    """Processes of several episodes of `horizon` steps, each from the first state."""

    means: Means
    """Mean rewards, hidden from the agent."""
    transitions: Transitions
    action_values: ActionValues
    """Optimal expected rewards until the episode ends, for each of its steps; hidden."""
    episodes: int
    deviation: float | None
    """Standard deviation of normal rewards. Without one, rewards are 0 or 1."""

    @property
    def horizon(self) -> int:
        """The number of steps of an episode."""
        return self.action_values.shape[1]

    def observe(
        self,
        states: Indices,
        step: int,
        actions: Indices | None = None,
        rewards: Rewards | None = None,
    ) -> Float[Tensor, "batch width"]:
        """Return what an agent observes before a step (Duan 2016, section 2.2).

        It is one vector: the state, the last action, its reward, and whether an episode
        begins.
        """
        count, state_count, action_count = self.means.shape
        last = self.means.new_zeros(count, action_count + 1)
        if actions is not None and rewards is not None:
            last[:, :-1] = functional.one_hot(actions, action_count)
            last[:, -1] = rewards
        begins = torch.full_like(last[:, :1], step % self.horizon == 0)
        return torch.cat([functional.one_hot(states, state_count), last, begins], -1)

    def step(
        self,
        states: Indices,
        actions: Indices,
        step: int,
        random: Generator | None = None,
    ) -> tuple[Indices, Rewards, Float[Tensor, "batch action"]]:
        """Return the next states, the rewards and the regrets of all actions.

        The regret of an action is its expected loss against the best one, over the rest
        of the episode.

        Args:
            states: The states.
            actions: The actions.
            step: Index of the step over all episodes.
            random: A generator, by default PyTorch's global one.
        """
        rows = torch.arange(len(states), device=states.device)
        rewards = self.means[rows, states, actions]
        if self.deviation is None:
            rewards = torch.bernoulli(rewards, generator=random)
        else:
            noise = torch.empty_like(rewards).normal_(generator=random)
            rewards = rewards + self.deviation * noise
        values = self.action_values[rows, step % self.horizon, states]
        regrets = values.amax(-1, keepdim=True) - values
        if (step + 1) % self.horizon == 0:
            return torch.zeros_like(states), rewards, regrets
        chances = self.transitions[rows, states, actions]
        following = torch.multinomial(chances, 1, generator=random)[:, 0]
        return following, rewards, regrets


def compute_action_values(
    means: Means, transitions: Transitions, horizon: int
) -> ActionValues:
    """Compute the optimal action values by value iteration, from the last step on.

    Q_h(s, a) = r(s, a) + sum_s' p(s' | s, a) max_a' Q_{h+1}(s', a'),  0 after the last step
    """
    steps = [means]
    for _ in range(horizon - 1):
        best = steps[0].amax(-1)
        steps.insert(0, means + torch.einsum("bsan,bn->bsa", transitions, best))
    return torch.stack(steps, 1)


@dataclass(frozen=True)
class Trajectories:
    """The observation before each action, the action, its reward, and all regrets."""

    inputs: Float[Tensor, "batch step width"]
    actions: Actions
    rewards: PerStep
    regrets: PerAction
    """The regrets of every action at each step."""

    @property
    def action_regrets(self) -> PerStep:
        """The regret of the action at each step."""
        return self.regrets.gather(-1, self.actions[..., None])[..., 0]


@torch.no_grad()
def act(
    agent: Any, environments: Environments, random: Generator | None = None
) -> Trajectories:
    """Return the trajectories of all episodes.

    Args:
        agent: A policy with `start` and `step` as `Actor` has them, from whose
            distribution actions are sampled.
        environments: The environments.
        random: A generator, by default PyTorch's global one.
    """
    means = environments.means
    states = torch.zeros(len(means), dtype=torch.int64, device=means.device)
    observation = environments.observe(states, 0)
    memory = agent.start(len(means))
    steps = []
    for step in range(environments.episodes * environments.horizon):
        logits, memory = agent.step(observation, memory)
        samples = torch.multinomial(logits.softmax(-1), 1, generator=random)
        actions = samples[:, 0]
        states, rewards, regrets = environments.step(states, actions, step, random)
        steps.append((observation, actions, rewards, regrets))
        observation = environments.observe(states, step + 1, actions, rewards)
    return Trajectories(*(torch.stack(part, 1) for part in zip(*steps, strict=True)))


@dataclass(frozen=True, kw_only=True)
class Decisions(IndependentSets, Synthetic):
    """Random environments: an epoch has `train` new ones; `valid` and `test` are fixed."""

    deviation = None

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int, int, int]:
        """The numbers of states, actions, episodes, and steps of an episode."""

    @property
    def steps(self) -> int:
        """The number of steps of an agent in an environment."""
        return self.shape[2] * self.shape[3]

    @property
    def observation_width(self) -> int:
        """The width of an observation."""
        return self.shape[0] + self.shape[1] + 2

    @abstractmethod
    def sample(self, count: int, random: Generator) -> Environments:
        """Sample environments."""

    @property
    @abstractmethod
    def form(self) -> str:
        """What a line is."""

    @abstractmethod
    def parse(self, line: str) -> Environments:
        """Return the one environment of a line. Raises ValueError for another line."""

    def build(self, means: Means, transitions: Transitions) -> Environments:
        """Return environments with these means of rewards and transitions."""
        values = compute_action_values(means, transitions, self.shape[3])
        return Environments(
            means,
            transitions,
            values,
            self.shape[2],
            self.deviation,
        )

    def sample_seeded(self, count: int, seed: str) -> Environments:
        """Sample environments as a function of the seed, the same in every process."""
        number = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:7], "big")
        return self.sample(count, Generator().manual_seed(number))

    def make(self, name: str) -> list[Environments]:
        """Sample the environments for validation or test, in batches."""
        count = 0 if name == "train" else getattr(self, name)
        return [
            self.sample_seeded(
                min(BATCH_ROWS, count - first), f"{self.seed}/{name}/{first}"
            )
            for first in range(0, count, BATCH_ROWS)
        ]


@dataclass(frozen=True, kw_only=True)
class Bandits(Decisions):
    """Bernoulli bandits: the probabilities of the arms are uniform between 0 and 1."""

    kind: Literal["bandits"] = "bandits"
    arms: ActionCount = 5
    pulls: Size = 100

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return 1, self.arms, self.pulls, 1

    def sample(self, count: int, random: Generator) -> Environments:
        means = torch.rand(count, self.arms, generator=random)[:, None]
        return self.build(means, torch.ones(*means.shape, 1))

    @property
    def form(self) -> str:
        return f"{self.arms} probabilities separated by spaces"

    def parse(self, line: str) -> Environments:
        """Return the bandit of `0.2 0.9 0.5`: the probability of each arm."""
        numbers = list(map(float, line.split()))
        if len(numbers) != self.arms or not all(0 <= n <= 1 for n in numbers):
            raise ValueError(line)
        return self.build(torch.tensor([[numbers]]), torch.ones(1, 1, self.arms, 1))


@dataclass(frozen=True, kw_only=True)
class Processes(Decisions):
    """Tabular Markov decision processes.

    Transitions are sampled from a flat Dirichlet distribution, the means of rewards from
    N(1, 1); rewards have variance 1. Every episode begins in the first state.
    """

    kind: Literal["processes"] = "processes"
    states: Size = 10
    actions: ActionCount = 5
    episodes: Size = 10
    horizon: Size = 10

    deviation = 1.0

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return self.states, self.actions, self.episodes, self.horizon

    def sample(self, count: int, random: Generator) -> Environments:
        shape = count, self.states, self.actions
        means = 1 + torch.randn(*shape, generator=random)
        uniform = torch.rand(*shape, self.states, dtype=torch.float64, generator=random)
        # Exponential samples, divided by their sum, are flatly distributed.
        exponential = -torch.log1p(-uniform)
        transitions = exponential / exponential.sum(-1, keepdim=True)
        return self.build(means, transitions.float())

    @property
    def form(self) -> str:
        return "a whole number, the seed of a process"

    def parse(self, line: str) -> Environments:
        """Return the process of a seed, such as `7`."""
        if not 0 <= int(line) <= LARGEST_SEED:
            raise ValueError(line)
        return self.sample_seeded(1, f"read/{int(line)}")


@dataclass(frozen=True)
class ActorCritic:
    """The settings of the actor-critic's loss.

    From the first update to the last the discount rises linearly from 0, so that near
    rewards are learned first (François-Lavet 2015, 1512.02011), and the entropy bonus falls
    linearly to `entropy_end`.
    """

    discount: Share = 0.95
    """Decay rate gamma of the advantages."""
    trace: Share = 0.3
    """Decay rate lambda of the advantages."""
    entropy: Amount = 0.05
    """Weight of the entropy bonus at the first update."""
    entropy_end: Amount = 0.01
    """Weight of the entropy bonus at the last update."""
    value: Amount = 0.5
    """Weight of the critic's loss beside the policy's."""

    def at_update(self, update: int, steps: int) -> "ActorCritic":
        """Return the settings of an update, from 1, of `steps`."""
        share = (update - 1) / max(1, steps - 1)
        bonus = self.entropy + (self.entropy_end - self.entropy) * share
        return replace(self, discount=self.discount * share, entropy=bonus)


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
    data: Bandits | Processes
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
        numbers = range(config.data.train)
        lengths = [(config.data.steps, config.data.steps) for _ in numbers]
        super().__init__(
            numbers,
            valid,
            config.training,
            lengths,
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
        settings = self.config.learning.at_update(update, self.settings.steps)
        logits, values = model(trajectories.inputs)
        total = compute_loss(
            logits,
            values,
            actions,
            -trajectories.regrets,
            settings,
        )
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
            batch.means.numpy().tobytes() + batch.transitions.numpy().tobytes()
            for batch in splits.valid
        ),
        DataSummary(
            unit="environments",
            rows=describe_rows(data, sets),
            lengths={"environment in steps": Lengths.of([data.steps])},
        ),
        details=[f"{data.steps} steps in each"],
        tests=splits.test,
    )


@torch.no_grad()
def compute_metrics(
    agent: Any, batches: Sequence[Environments], device: torch.device
) -> dict[str, float]:
    """Return the metrics of an agent against the optimum, which knows the environment.

    Returns:
        regret: Expected loss of all rewards, the mean over environments.
        standard-error: Of that mean.
        reward: Sum of rewards.
        share: Share of the optimum's expected reward, in percent.
        late-share: The same in the last tenth of the episodes.
    """
    random = torch.Generator(device).manual_seed(1)
    results = []
    for environments in batches:
        environments = environments.to(device)
        trajectories = act(agent, environments, random)
        by_step = trajectories.action_regrets.double()
        by_episode = by_step.unflatten(1, (environments.episodes, -1)).sum(-1)
        rewards = trajectories.rewards.double().sum(-1)
        # The best policy knows the process and begins in the first state.
        optima = environments.action_values[:, 0, 0].amax(-1).double()
        results.append((by_episode, rewards, optima))
    by_episode, rewards, optima = map(torch.cat, zip(*results, strict=True))
    regret = by_episode.sum(-1)
    episodes = by_episode.shape[1]
    late = max(1, episodes // 10)

    def share(regrets: Tensor, episodes: int) -> float:
        return 100 * (1 - regrets.sum() / (episodes * optima.sum())).item()

    return {
        "regret": regret.mean().item(),
        "standard-error": (regret.var(correction=0) / len(regret)).sqrt().item(),
        "reward": rewards.mean().item(),
        "share": share(regret, episodes),
        "late-share": share(by_episode[:, -late:], late),
    }


class MetaRLRun(LineRun):
    """A trained agent: `load(folder).predict(texts)`.

    An example describes an environment: `0.2 0.9 0.5`, the probabilities of the arms, or
    `7`, the seed of a process.
    """

    config: MetaRL
    model: Actor
    key = "environment"

    @staticmethod
    def build(config: MetaRL) -> Actor:
        data = config.data
        return Actor(data.observation_width, data.shape[1], data.steps, config.model)

    def compute_metrics(
        self, examples: Sequence[Environments], options: EvaluationOptions
    ) -> dict[str, float]:
        return compute_metrics(self.model, examples, self.device)

    def predict_examples(
        self, examples: Sequence[Environments]
    ) -> list[TextPrediction]:
        """Return the actions in each environment, the same at every call.

        Actions, and the `places`, the states before them, are counted from 1.
        """
        predictions = []
        for environment in examples:
            random = torch.Generator(self.device).manual_seed(1)
            trajectories = act(self.model, environment.to(self.device), random)
            states = trajectories.inputs[0, :, : self.config.data.shape[0]].argmax(-1)
            actions = (trajectories.actions[0] + 1).tolist()
            values = {
                "actions": actions,
                "rewards": trajectories.rewards[0].tolist(),
                "places": (states + 1).tolist(),
                "regret": trajectories.action_regrets.sum().item(),
            }
            text = " ".join(map(str, actions))
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
