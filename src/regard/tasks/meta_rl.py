"""Meta-reinforcement learning: agents that adapt to new bandits and decision processes.

The environments are random Bernoulli bandits and random tabular Markov decision processes
(Duan 2016, 1611.02779, sections 3.1 and 3.2; Mishra 2018, 1707.03141, section 5.2), many of
which are stepped at once as tensors. A bandit is a process of one state whose episodes have
one step. Agents learn by advantage actor-critic (Mnih 2016, 1602.01783) with generalized
advantages (Schulman 2016, 1506.02438).
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, Protocol, runtime_checkable

import torch
from pydantic import Field
from torch import Generator, Tensor, nn
from torch.nn import functional

from regard.attention.record import record
from regard.attribution.aggregation import to_single_map
from regard.attribution.kinds import Kind
from regard.data.batches import Batch
from regard.data.generated.synthetic import Synthetic
from regard.data.splits import Splits
from regard.errors import InputError, quote
from regard.maps.alignment import Alignment
from regard.models.snail import ActingRecurrentConfig, ActingSnailConfig, Actor
from regard.shapes import Float, Int
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution
from regard.tasks.base import Setup, TokenBatchObjective, digest
from regard.tasks.options import AttributionOptions, EvaluationOptions, PredictOptions
from regard.tasks.prediction import ShortRepr
from regard.tasks.run import Run
from regard.tasks.summary import DataSummary, Lengths, Rows
from regard.tasks.task import LazyTask
from regard.training.devices import count_parameters
from regard.training.objectives import Carried, Loss
from regard.training.settings import Training

TASK = LazyTask(__name__, ":MetaRL", ":setup", ":MetaRLRun")
BATCH_ROWS = 200
"""Environments in one batch of evaluation."""
LATE_PART = 10
"""Number of parts of the episodes; the last has a metric of its own."""
LARGEST_SEED = 1 << 62
AXES = "down: each action; across: the actions before it, each with its reward"
ActionCount = Annotated[int, Field(ge=2, le=1_000)]
Count = Annotated[int, Field(ge=1, le=10_000)]
Horizon = Annotated[int, Field(ge=1, le=1_000)]
Share = Annotated[float, Field(ge=0, le=1)]
LossWeight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
PerState = Float[Tensor, "batch state action"]
PerStep = Float[Tensor, "batch step"]
PerAction = Float[Tensor, "batch step action"]
ActionValues = Float[Tensor, "batch step state action"]
Transitions = Float[Tensor, "batch state action next_state"]
Noise = Callable[[Tensor, Generator | None], Tensor]
"""Samples rewards with these means."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of an action: the next observation and state."""

    observation: Float[Tensor, "batch width"]
    states: Int[Tensor, " batch"]
    rewards: Float[Tensor, " batch"]
    regrets: Float[Tensor, "batch action"]
    """Expected loss of every action against the best one, over the rest of the episode."""


@dataclass(frozen=True, repr=False)
class Environments(Batch):
    """Processes of `episodes` episodes of `horizon` steps, each from the first state.

    An observation is one vector: the state, the last action, its reward, and whether an
    episode begins (Duan 2016, section 2.2).
    """

    means: PerState
    """Mean rewards, hidden from the agent."""
    transitions: Transitions
    action_values: ActionValues
    """Optimal expected rewards until the episode ends, for each of its steps; hidden."""
    episodes: int
    horizon: int
    noise: Noise
    """Samples rewards around their means."""

    def __len__(self) -> int:
        return len(self.means)

    @property
    def steps(self) -> int:
        """The number of steps of all episodes."""
        return self.episodes * self.horizon

    @property
    def optimum(self) -> Float[Tensor, " batch"]:
        """The expected reward of an episode under the best policy, which knows the process."""
        return self.action_values[:, 0, 0].amax(-1)

    @property
    def late_episodes(self) -> int:
        """The number of episodes in the last tenth, at least 1."""
        return max(1, self.episodes // LATE_PART)

    def start(self) -> Outcome:
        """Return the outcome before the first action: the first state and no reward."""
        rewards = self.means.new_zeros(len(self))
        actions = self.means.new_zeros(len(self), self.means.shape[2])
        states = torch.zeros(len(self), dtype=torch.int64, device=self.means.device)
        observation = self._observe(states, actions, rewards, begins=True)
        return Outcome(observation, states, rewards, torch.zeros_like(actions))

    def step(
        self,
        states: Int[Tensor, " batch"],
        actions: Int[Tensor, " batch"],
        step: int,
        random: Generator | None = None,
    ) -> Outcome:
        """Return the outcome of actions.

        Args:
            states: The states.
            actions: The actions.
            step: Index of the step over all episodes.
            random: A generator, by default PyTorch's global one.
        """
        rows = torch.arange(len(self), device=states.device)
        rewards = self.noise(self.means[rows, states, actions], random)
        values = self.action_values[rows, step % self.horizon, states]
        regrets = values.amax(-1, keepdim=True) - values
        begins = (step + 1) % self.horizon == 0
        if begins:
            following = torch.zeros_like(states)
        else:
            chances = self.transitions[rows, states, actions]
            following = torch.multinomial(chances, 1, generator=random)[:, 0]
        one_hot = functional.one_hot(actions, self.means.shape[2])
        one_hot = one_hot.to(self.means.dtype)
        observation = self._observe(following, one_hot, rewards, begins=begins)
        return Outcome(observation, following, rewards, regrets)

    def _observe(
        self, states: Tensor, actions: Tensor, rewards: Tensor, *, begins: bool
    ) -> Tensor:
        state = functional.one_hot(states, self.means.shape[1]).to(actions.dtype)
        reward = rewards[:, None]
        start = torch.full_like(reward, float(begins))
        return torch.cat([state, actions, reward, start], -1)


def observation_width(states: int, actions: int) -> int:
    """Return the width of an observation."""
    return states + actions + 2


def compute_action_values(
    means: PerState, transitions: Transitions, horizon: int
) -> ActionValues:
    """Compute the optimal action values by value iteration, from the last step on.

    Q_h(s, a) = r(s, a) + sum_s' p(s' | s, a) max_a' Q_{h+1}(s', a'),  0 after the last step
    """
    steps, best = [], means.new_zeros(means.shape[:2])
    for _ in range(horizon):
        values = means + torch.einsum("bsan,bn->bsa", transitions, best)
        steps.append(values)
        best = values.amax(-1)
    return torch.stack(steps[::-1], 1)


def sample_bernoulli(means: Tensor, random: Generator | None) -> Tensor:
    """Sample 1 with the mean as its probability, else 0."""
    return torch.bernoulli(means, generator=random)


def sample_normal(means: Tensor, random: Generator | None) -> Tensor:
    """Sample from normal distributions of variance 1."""
    noise = torch.randn(
        means.shape, dtype=means.dtype, device=means.device, generator=random
    )
    return means + noise


@runtime_checkable
class Agent(Protocol):
    """A policy: from an observation and its state to logits of actions and a state."""

    def start(self, batch: int) -> Any: ...

    def step(self, inputs: Tensor, state: Any) -> tuple[Tensor, Any]: ...


@dataclass(frozen=True)
class Trajectories:
    """The observation before each action, the action and its reward."""

    inputs: Float[Tensor, "batch step width"]
    actions: Int[Tensor, "batch step"]
    rewards: Float[Tensor, "batch step"]
    regrets: PerAction
    """The regrets of every action (`Outcome`)."""

    @property
    def action_regrets(self) -> Float[Tensor, "batch step"]:
        """The regret of the action at each step."""
        return self.regrets.gather(-1, self.actions[..., None])[..., 0]


@torch.no_grad()
def act(
    agent: Agent, environments: Environments, random: Generator | None = None
) -> Trajectories:
    """Return the trajectories of all episodes.

    Args:
        agent: The policy, from whose distribution actions are sampled.
        environments: The environments.
        random: A generator, by default PyTorch's global one.
    """
    current, state = environments.start(), agent.start(len(environments))
    inputs, actions, outcomes = [], [], []
    for step in range(environments.steps):
        logits, state = agent.step(current.observation, state)
        inputs.append(current.observation)
        samples = torch.multinomial(logits.softmax(-1), 1, generator=random)
        actions.append(samples[:, 0])
        current = environments.step(current.states, actions[-1], step, random)
        outcomes.append(current)
    return Trajectories(
        torch.stack(inputs, 1),
        torch.stack(actions, 1),
        torch.stack([outcome.rewards for outcome in outcomes], 1),
        torch.stack([outcome.regrets for outcome in outcomes], 1),
    )


@dataclass(frozen=True, kw_only=True)
class Decisions(Synthetic, ABC):
    """Random environments: an epoch has `train` new ones; `valid` and `test` are fixed."""

    @property
    @abstractmethod
    def state_and_action_counts(self) -> tuple[int, int]:
        """The number of states and of actions."""

    @property
    @abstractmethod
    def steps(self) -> int:
        """The number of steps of an agent in an environment."""

    @abstractmethod
    def sample(self, count: int, random: Generator) -> Environments:
        """Sample environments."""

    @abstractmethod
    def read(self, text: str, place: str) -> Environments:
        """Return the one environment that a text describes.

        Raises:
            InputError: The text describes none.
        """

    def sample_seeded(self, count: int, seed: str) -> Environments:
        """Sample environments as a function of the seed."""
        return self.sample(count, make_generator(seed))

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
    def state_and_action_counts(self) -> tuple[int, int]:
        return 1, self.arms

    @property
    def steps(self) -> int:
        return self.pulls

    def sample(self, count: int, random: Generator) -> Environments:
        return self._build(torch.rand(count, self.arms, generator=random))

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
        return self._build(torch.tensor([numbers]))

    def _build(self, probabilities: Tensor) -> Environments:
        means = probabilities[:, None]
        transitions = torch.ones(*means.shape, 1)
        values = compute_action_values(means, transitions, 1)
        return Environments(means, transitions, values, self.pulls, 1, sample_bernoulli)


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

    @property
    def state_and_action_counts(self) -> tuple[int, int]:
        return self.states, self.actions

    @property
    def steps(self) -> int:
        return self.episodes * self.horizon

    def sample(self, count: int, random: Generator) -> Environments:
        means = 1 + torch.randn(count, self.states, self.actions, generator=random)
        shape = (count, self.states, self.actions, self.states)
        uniform = torch.rand(*shape, dtype=torch.float64, generator=random)
        # Exponential samples, divided by their sum, are flatly distributed.
        exponential = -torch.log1p(-uniform)
        transitions = (exponential / exponential.sum(-1, keepdim=True)).float()
        values = compute_action_values(means, transitions, self.horizon)
        return Environments(
            means, transitions, values, self.episodes, self.horizon, sample_normal
        )

    def read(self, text: str, place: str) -> Environments:
        """Return the process of a seed, such as `7`."""
        if not text.strip().isdecimal() or int(text) > LARGEST_SEED:
            raise InputError(
                f"{place}: {quote(text)}; expected a whole number, the seed of a process"
            )
        return self.sample_seeded(1, f"read/{int(text)}")


def make_generator(seed: str) -> Generator:
    """Return a generator seeded by a text, the same in every process."""
    number = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:7], "big")
    return Generator().manual_seed(number)


@dataclass(frozen=True)
class ActorCritic:
    """The settings of the actor-critic's loss.

    From the first update to the last the discount rises linearly from 0, so that near
    rewards are learned first (François-Lavet 2015, 1512.02011), and the entropy bonus falls
    linearly to `entropy_end`.
    """

    signal: Literal["regret", "reward"] = "regret"
    """What the loss learns from: the sampled `reward`, or the `regret` of every action,
    which requires a known optimum."""
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
    advantages, later = [], torch.zeros_like(errors[:, 0])
    for error in reversed(errors.unbind(1)):
        later = error + discount * trace * later
        advantages.append(later)
    return torch.stack(advantages[::-1], 1)


def compute_reward_loss(
    logits: PerAction,
    values: PerStep,
    actions: Int[Tensor, "batch step"],
    rewards: PerStep,
    settings: ActorCritic,
) -> Float[Tensor, ""]:
    """Compute the loss of sampled rewards (Mnih 2016, algorithm S3), summed over steps.

    -log pi(a_t) A_t + c_v (V_t - (A_t + V_t))^2 / 2 - c_e H(pi_t)

    The critic's values V_t include the step's own reward. A_t and the critic's target have
    no gradient.
    """
    logs = logits.log_softmax(-1)
    advantages = compute_advantages(
        rewards, values.detach(), settings.discount, settings.trace
    )
    return _combine_losses(logs, values, actions, advantages, settings).sum()


def compute_regret_loss(
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
    losses = _combine_losses(logs, later, actions, advantages, settings)
    return (losses - expected).sum()


def _combine_losses(
    logs: PerAction,
    values: PerStep,
    actions: Int[Tensor, "batch step"],
    advantages: PerStep,
    settings: ActorCritic,
) -> PerStep:
    """Compute the common part of both losses at each step.

    -log pi(a_t) F_t + c_v (G_t - (F_t + G_t))^2 / 2 - c_e H(pi_t)

    The advantage F_t and the second critic's value G_t have no gradient.
    """
    errors = (values - (advantages + values.detach())).square() / 2
    entropy = -(logs.exp() * logs).sum(-1)
    log_probability = logs.gather(-1, actions[..., None])[..., 0]
    policy = log_probability * advantages
    return settings.value * errors - policy - settings.entropy * entropy


def learn_from_regrets(
    logits: Tensor, values: Tensor, trajectories: Trajectories, settings: ActorCritic
) -> Tensor:
    """Compute the loss of trajectories from the regrets of all actions."""
    rewards = -trajectories.regrets
    return compute_regret_loss(logits, values, trajectories.actions, rewards, settings)


def learn_from_rewards(
    logits: Tensor, values: Tensor, trajectories: Trajectories, settings: ActorCritic
) -> Tensor:
    """Compute the loss of trajectories from their sampled rewards."""
    return compute_reward_loss(
        logits, values, trajectories.actions, trajectories.rewards, settings
    )


LOSSES: Mapping[str, Callable[[Tensor, Tensor, Trajectories, ActorCritic], Tensor]] = {
    "regret": learn_from_regrets,
    "reward": learn_from_rewards,
}
"""The losses by `learning.signal`."""


@dataclass(frozen=True, kw_only=True)
class MetaRL:
    """A run file. A batch has room for `training.batch_tokens` steps."""

    task: Literal["meta-rl"] = "meta-rl"
    data: Bandits | Processes
    model: ActingSnailConfig | ActingRecurrentConfig = field(
        default_factory=ActingSnailConfig
    )
    learning: ActorCritic = field(default_factory=ActorCritic)
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        if self.training.label_smoothing:
            raise ValueError(
                "training.label_smoothing is for words, not for actions; set it to 0"
            )

    def build_actor(self) -> Actor:
        """Return the model with initial weights."""
        states, actions = self.data.state_and_action_counts
        width = observation_width(states, actions)
        return Actor(width, actions, self.data.steps, self.model)


class MetaRLObjective(TokenBatchObjective[Any, Environments]):
    """Advantage actor-critic over environments that are sampled for each batch.

    The loss samples trajectories from the current policy.
    """

    metric, higher_is_better = "regret", False

    def __init__(
        self, actor: Actor, valid: Sequence[Environments], config: MetaRL
    ) -> None:
        self.actor, self.config = actor, config
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
        total = LOSSES[settings.signal](logits, values, trajectories, settings)
        return Loss(total, trajectories.actions.numel())

    def validate(self, model: nn.Module) -> dict[str, float]:
        assert isinstance(model, Actor)
        device = next(model.parameters()).device
        return compute_metrics(model, self.valid, device)


def setup(config: MetaRL, folder: RunDirectory, processes: int) -> Setup:
    """Sample the environments for validation and test, and build model and objective.

    Raises:
        InputError: There are too few environments.
    """
    data, actor = config.data, config.build_actor()
    splits = data.load()
    counts = {"train": data.train, "valid": data.valid, "test": data.test}
    return Setup(
        actor,
        MetaRLObjective(actor, splits.valid, config),
        digest(map(digest_line, splits.valid)),
        f"{data.train:,} environments an epoch, {data.valid:,} to validate, "
        f"{data.test:,} to test; {data.steps} steps in each; "
        f"{count_parameters(actor):,} parameters",
        tests=splits.test,
        data=DataSummary(
            unit="environments",
            rows={name: Rows(count, "generated") for name, count in counts.items()},
            lengths={"environment in steps": Lengths.of([data.steps])},
        ),
    )


def digest_line(environments: Environments) -> str:
    """Return the line that identifies environments."""
    means, transitions = environments.means.numpy(), environments.transitions.numpy()
    content = means.tobytes() + transitions.tobytes()
    return hashlib.sha256(content).hexdigest() + "\n"


@torch.no_grad()
def compute_metrics(
    agent: Agent, batches: Sequence[Environments], device: torch.device
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
    regrets, late_regrets, rewards, optima = [], [], [], []
    for environments in batches:
        trajectories = act(agent, environments.to(device), random)
        shape = environments.episodes, environments.horizon
        losses = trajectories.action_regrets.double().unflatten(1, shape).sum(-1)
        regrets.append(losses.sum(-1))
        late_regrets.append(losses[:, -environments.late_episodes :].sum(-1))
        rewards.append(trajectories.rewards.double().sum(-1))
        optima.append(environments.optimum.double().to(device))
    regret, late_regret = torch.cat(regrets), torch.cat(late_regrets)
    optimum = torch.cat(optima).sum()
    episodes, late = batches[0].episodes, batches[0].late_episodes
    return {
        "regret": regret.mean().item(),
        "standard-error": (regret.var(correction=0) / len(regret)).sqrt().item(),
        "reward": torch.cat(rewards).mean().item(),
        "share": 100 * (1 - regret.sum() / (episodes * optimum)).item(),
        "late-share": 100 * (1 - late_regret.sum() / (late * optimum)).item(),
    }


@dataclass(frozen=True, repr=False)
class ActionPrediction(ShortRepr):
    """A trajectory in one environment."""

    actions: tuple[int, ...]
    """The actions, counted from 1."""
    rewards: tuple[float, ...]
    places: tuple[int, ...]
    """The state before each action, counted from 1."""
    regret: float
    """Expected loss of reward against the optimum."""

    @classmethod
    def of(
        cls, trajectories: Trajectories, environment: Environments
    ) -> "ActionPrediction":
        """Return the prediction of the one trajectory in an environment."""
        states = trajectories.inputs[0, :, : environment.means.shape[1]].argmax(-1)
        return cls(
            tuple((trajectories.actions[0] + 1).tolist()),
            tuple(trajectories.rewards[0].tolist()),
            tuple((states + 1).tolist()),
            trajectories.action_regrets.sum().item(),
        )

    @property
    def text(self) -> str:
        """The actions, separated by spaces."""
        return " ".join(map(str, self.actions))

    def lines(self) -> list[str]:
        return [self.text]

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


class MetaRLRun(Run[str, ActionPrediction]):
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
        self.config, self.model = config, model

    @classmethod
    def open(cls, run: RunDirectory, config: MetaRL) -> "MetaRLRun":
        """Return the run in a folder, its model with initial weights."""
        return cls(config, config.build_actor())

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return () if self.config.model.name == "gru" else ("weights",)

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
    ) -> list[ActionPrediction]:
        predictions = []
        for number, text in enumerate(examples, 1):
            environment = self.config.data.read(text, f"text {number}")
            predictions.append(ActionPrediction.of(self._act(environment), environment))
        return predictions

    def _attribute(self, example: str, options: AttributionOptions) -> Attribution:
        """Return the attention of each action to the steps before it.

        Raises:
            InputError: The text describes no environment, or the model does not attend.
        """
        environment = self.config.data.read(example, "text 1")
        with record(self.model, only=self.model.self_attention) as maps:
            trajectories = self._act(environment)
        if not maps:
            raise InputError(
                f"a model {self.config.model.name} does not attend to anything; there is "
                "nothing to show"
            )
        prediction = ActionPrediction.of(trajectories, environment)
        weights = list(maps.values())[-1][0].double().cpu().numpy()
        steps = [
            f"{action}: {reward:.3g}"
            for action, reward in zip(
                prediction.actions, prediction.rewards, strict=True
            )
        ]
        actions = tuple(map(str, prediction.actions))
        attention = Alignment(weights, ("begin", *steps[:-1]), actions)
        lookups = (to_single_map(attention, "weights"),)
        return Attribution(
            prediction, example, lookups, attention, options, detail=AXES
        )

    def _act(self, environment: Environments) -> Trajectories:
        """Return the trajectory in an environment, the same at every call."""
        random = torch.Generator(self.device).manual_seed(1)
        return act(self.model, environment.to(self.device), random)
