"""Meta-reinforcement learning: agents that adapt to new bandits and decision processes.

The environments are random Bernoulli bandits and random tabular Markov decision processes
(Duan 2016, 1611.02779, sections 3.1 and 3.2; Mishra 2018, 1707.03141, section 5.2), many of
which are stepped at once as tensors. A bandit is a process of one state whose episodes have
one step. Agents learn by advantage actor-critic (Mnih 2016, 1602.01783) with generalized
advantages (Schulman 2016, 1506.02438).
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Generator, Tensor, nn
from torch.nn import functional

from regard.attention.record import record
from regard.attribution.aggregation import to_single_map
from regard.data.batches import Batch
from regard.data.generated.synthetic import Synthetic
from regard.data.splits import Splits
from regard.errors import InputError, quote
from regard.maps.alignment import Alignment
from regard.models.snail import ActingSnailConfig, Actor
from regard.shapes import Float, Int
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution
from regard.tasks.base import Setup, TokenBatchObjective, digest, setup_task
from regard.tasks.options import AttributionOptions, EvaluationOptions, PredictOptions
from regard.tasks.prediction import TextPrediction
from regard.tasks.run import Run
from regard.tasks.summary import DataSummary, Lengths, describe_rows
from regard.tasks.task import LazyTask
from regard.training.objectives import Carried, Loss
from regard.training.settings import Training

TASK = LazyTask(__name__, ":MetaRL", ":setup", ":MetaRLRun")
BATCH_ROWS = 200
"""Environments in one batch of evaluation."""
LARGEST_SEED = 1 << 62
AXES = "down: each action; across: the actions before it, each with its reward"
ActionCount = Annotated[int, Field(ge=2, le=1_000)]
Count = Annotated[int, Field(ge=1, le=10_000)]
Horizon = Annotated[int, Field(ge=1, le=1_000)]
Share = Annotated[float, Field(ge=0, le=1)]
LossWeight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
PerStep = Float[Tensor, "batch step"]
PerAction = Float[Tensor, "batch step action"]


@dataclass(frozen=True, repr=False)
class Environments(Batch):
    """Processes of several episodes of `horizon` steps, each from the first state."""

    means: Float[Tensor, "batch state action"]
    """Mean rewards, hidden from the agent."""
    transitions: Float[Tensor, "batch state action next_state"]
    action_values: Float[Tensor, "batch step state action"]
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
        states: Int[Tensor, " batch"],
        step: int,
        actions: Int[Tensor, " batch"] | None = None,
        rewards: Float[Tensor, " batch"] | None = None,
    ) -> Float[Tensor, "batch width"]:
        """Return what an agent observes before a step (Duan 2016, section 2.2).

        It is one vector: the state, the last action, its reward, and whether an episode
        begins.
        """
        count, state_count, action_count = self.means.shape
        observations = self.means.new_zeros(count, state_count + action_count + 2)
        observations[:, :state_count] = functional.one_hot(states, state_count)
        if actions is not None and rewards is not None:
            one_hot = functional.one_hot(actions, action_count)
            observations[:, state_count:-2] = one_hot
            observations[:, -2] = rewards
        observations[:, -1] = float(step % self.horizon == 0)
        return observations

    def step(
        self,
        states: Int[Tensor, " batch"],
        actions: Int[Tensor, " batch"],
        step: int,
        random: Generator | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the next states, the rewards and the regrets `(batch, action)`.

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
    means: Float[Tensor, "batch state action"],
    transitions: Float[Tensor, "batch state action next_state"],
    horizon: int,
) -> Float[Tensor, "batch step state action"]:
    """Compute the optimal action values by value iteration, from the last step on.

    Q_h(s, a) = r(s, a) + sum_s' p(s' | s, a) max_a' Q_{h+1}(s', a'),  0 after the last step
    """
    steps = []
    best = means.new_zeros(means.shape[:2])
    for _ in range(horizon):
        values = means + torch.einsum("bsan,bn->bsa", transitions, best)
        steps.append(values)
        best = values.amax(-1)
    return torch.stack(steps[::-1], 1)


@dataclass(frozen=True)
class Trajectories:
    """The observation before each action, the action, its reward, and all regrets."""

    inputs: Float[Tensor, "batch step width"]
    actions: Int[Tensor, "batch step"]
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
    count = len(means)
    states = torch.zeros(count, dtype=torch.int64, device=means.device)
    observation = environments.observe(states, 0)
    memory = agent.start(count)
    steps = []
    for step in range(environments.episodes * environments.horizon):
        logits, memory = agent.step(observation, memory)
        probabilities = logits.softmax(-1)
        samples = torch.multinomial(probabilities, 1, generator=random)
        actions = samples[:, 0]
        states, rewards, regrets = environments.step(states, actions, step, random)
        steps.append((observation, actions, rewards, regrets))
        observation = environments.observe(states, step + 1, actions, rewards)
    parts = [torch.stack(part, 1) for part in zip(*steps, strict=True)]
    return Trajectories(*parts)


@dataclass(frozen=True, kw_only=True)
class Decisions(Synthetic, ABC):
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

    @abstractmethod
    def read(self, text: str, place: str) -> Environments:
        """Return the one environment that a text describes.

        Raises:
            InputError: The text describes none.
        """

    def build(self, means: Tensor, transitions: Tensor) -> Environments:
        """Return environments with these means of rewards and transitions."""
        values = compute_action_values(means, transitions, self.shape[3])
        return Environments(means, transitions, values, self.shape[2], self.deviation)

    def sample_seeded(self, count: int, seed: str) -> Environments:
        """Sample environments as a function of the seed, the same in every process."""
        number = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:7], "big")
        return self.sample(count, Generator().manual_seed(number))

    def load(self) -> Splits[Environments]:
        """Return the environments for validation and test, in batches."""
        return Splits((), self.make_batches(self.valid, "valid"), self.tests())

    def tests(self) -> list[Environments]:
        """Return the environments for test, in batches."""
        return self.make_batches(self.test, "test")

    def make_batches(self, count: int, name: str) -> list[Environments]:
        """Sample environments in batches."""
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
    pulls: Count = 100

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return 1, self.arms, self.pulls, 1

    def sample(self, count: int, random: Generator) -> Environments:
        means = torch.rand(count, self.arms, generator=random)[:, None]
        return self.build(means, torch.ones(*means.shape, 1))

    def read(self, text: str, place: str) -> Environments:
        """Return the bandit of `0.2 0.9 0.5`: the probability of each arm."""
        try:
            numbers = [float(word) for word in text.split()]
        except ValueError:
            numbers = []
        in_range = all(0 <= number <= 1 for number in numbers)
        if len(numbers) != self.arms or not in_range:
            raise InputError(
                f"{place}: {quote(text)}; expected {self.arms} probabilities separated "
                "by spaces"
            )
        return self.build(torch.tensor([[numbers]]), torch.ones(1, 1, self.arms, 1))


@dataclass(frozen=True, kw_only=True)
class Processes(Decisions):
    """Tabular Markov decision processes.

    Transitions are sampled from a flat Dirichlet distribution, the means of rewards from
    N(1, 1); rewards have variance 1. Every episode begins in the first state.
    """

    kind: Literal["processes"] = "processes"
    states: Count = 10
    actions: ActionCount = 5
    episodes: Count = 10
    horizon: Horizon = 10

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

    def read(self, text: str, place: str) -> Environments:
        """Return the process of a seed, such as `7`."""
        if not text.strip().isdecimal() or int(text) > LARGEST_SEED:
            raise InputError(
                f"{place}: {quote(text)}; expected a whole number, the seed of a process"
            )
        return self.sample_seeded(1, f"read/{int(text)}")


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
    entropy: LossWeight = 0.05
    """Weight of the entropy bonus at the first update."""
    entropy_end: LossWeight = 0.01
    """Weight of the entropy bonus at the last update."""
    value: LossWeight = 0.5
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
    actions: Int[Tensor, "batch step"],
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
        if self.training.label_smoothing:
            raise ValueError(
                "training.label_smoothing is for words, not for actions; set it to 0"
            )

    def build_actor(self) -> Actor:
        """Return the model with initial weights."""
        data = self.data
        return Actor(data.observation_width, data.shape[1], data.steps, self.model)


class MetaRLObjective(TokenBatchObjective[Any, Environments]):
    """Advantage actor-critic over environments that are sampled for each batch.

    The loss samples trajectories from the current policy.
    """

    metric = "regret"
    higher_is_better = False

    def __init__(
        self, actor: Actor, valid: Sequence[Environments], config: MetaRL
    ) -> None:
        self.actor = actor
        self.config = config
        lengths = [(config.data.steps, config.data.steps)] * config.data.train
        super().__init__((), valid, config.training, lengths, "environments")

    def place(self, index: int) -> str:
        return f"environment {index}"

    def batch(self, epoch: int, indices: list[int]) -> Environments:
        data = self.config.data
        seed = f"{data.seed}/{self.settings.seed}/{epoch}/{indices[0]}"
        return data.sample_seeded(len(indices), seed)

    def loss(
        self,
        model: nn.Module,
        batch: Environments,
        update: int,
        carried: Carried | None = None,
    ) -> Loss:
        trajectories = act(self.actor, batch)
        logits, values = model(trajectories.inputs)
        settings = self.config.learning.at_update(update, self.settings.steps)
        rewards = -trajectories.regrets
        actions = trajectories.actions
        total = compute_loss(logits, values, actions, rewards, settings)
        return Loss(total, actions.numel())

    def validate(self, model: nn.Module) -> dict[str, float]:
        device = next(model.parameters()).device
        return compute_metrics(model, self.valid, device)


def setup(config: MetaRL, folder: RunDirectory, processes: int) -> Setup:
    """Sample the environments for validation and test, and build model and objective.

    Raises:
        InputError: There are too few environments.
    """
    data = config.data
    actor = config.build_actor()
    splits = data.load()
    checksums = []
    for batch in splits.valid:
        content = batch.means.numpy().tobytes() + batch.transitions.numpy().tobytes()
        checksums.append(hashlib.sha256(content).hexdigest() + "\n")
    sets = Splits(*map(range, data.sizes))
    return setup_task(
        actor,
        MetaRLObjective(actor, splits.valid, config),
        sets,
        digest(checksums),
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
    regrets = []
    rewards = []
    optima = []
    for environments in batches:
        trajectories = act(agent, environments.to(device), random)
        shape = environments.episodes, environments.horizon
        by_step = trajectories.action_regrets.double().unflatten(1, shape)
        regrets.append(by_step.sum(-1))
        rewards.append(trajectories.rewards.double().sum(-1))
        # The best policy knows the process and begins in the first state.
        first_values = environments.action_values[:, 0, 0]
        optima.append(first_values.amax(-1).double())
    by_episode = torch.cat(regrets)
    optimum = torch.cat(optima).sum().to(device)
    regret = by_episode.sum(-1)
    variance = regret.var(correction=0)
    standard_error = (variance / len(regret)).sqrt()
    episodes = by_episode.shape[1]
    share = 1 - regret.sum() / (episodes * optimum)
    late = max(1, episodes // 10)
    late_regret = by_episode[:, -late:].sum()
    late_share = 1 - late_regret / (late * optimum)
    return {
        "regret": regret.mean().item(),
        "standard-error": standard_error.item(),
        "reward": torch.cat(rewards).mean().item(),
        "share": 100 * share.item(),
        "late-share": 100 * late_share.item(),
    }


class MetaRLRun(Run[str, TextPrediction]):
    """A trained agent: `load(folder).predict(texts)`.

    An example describes an environment: `0.2 0.9 0.5`, the probabilities of the arms, or
    `7`, the seed of a process.
    """

    config: MetaRL
    model: Actor
    supports = {
        "predict": frozenset(),
        "evaluate": frozenset(),
        "attribute": frozenset(),
    }

    def __init__(self, config: MetaRL, model: Actor) -> None:
        self.config = config
        self.model = model

    @classmethod
    def open(cls, run: RunDirectory, config: MetaRL) -> "MetaRLRun":
        """Return the run in a folder, its model with initial weights."""
        return cls(config, config.build_actor())

    def parse(self, line: str, place: str = "text 1") -> str:
        self.config.data.read(line, place)
        return line

    def record(self, example: str) -> dict[str, Any]:
        return {"environment": example}

    def compute_metrics(
        self, examples: Sequence[Environments], options: EvaluationOptions
    ) -> dict[str, float]:
        return compute_metrics(self.model, examples, self.device)

    def _predict(
        self, examples: Sequence[str], options: PredictOptions
    ) -> list[TextPrediction]:
        return [
            self._act(text, f"text {number}") for number, text in enumerate(examples, 1)
        ]

    def _attribute(self, example: str, options: AttributionOptions) -> Attribution:
        """Return the attention of each action to the steps before it."""
        with record(self.model, only=self.model.self_attention) as maps:
            prediction = self._act(example, "text 1")
        weights = list(maps.values())[-1][0].double().cpu().numpy()
        actions = prediction.text.split()
        rewards = prediction.values["rewards"]
        steps = zip(actions, rewards, strict=True)
        labels = [f"{action}: {reward:.3g}" for action, reward in steps]
        attention = Alignment(weights, ("begin", *labels[:-1]), tuple(actions))
        lookups = (to_single_map(attention, "weights"),)
        return Attribution(
            prediction, example, lookups, attention, options, detail=AXES
        )

    def _act(self, text: str, place: str) -> TextPrediction:
        """Return the actions in an environment, the same at every call.

        Actions, and the `places`, the states before them, are counted from 1.
        """
        environment = self.config.data.read(text, place).to(self.device)
        random = torch.Generator(self.device).manual_seed(1)
        trajectories = act(self.model, environment, random)
        states = trajectories.inputs[0, :, : self.config.data.shape[0]].argmax(-1)
        actions = (trajectories.actions[0] + 1).tolist()
        values = {
            "actions": actions,
            "rewards": trajectories.rewards[0].tolist(),
            "places": (states + 1).tolist(),
            "regret": trajectories.action_regrets.sum().item(),
        }
        return TextPrediction(" ".join(map(str, actions)), values)
