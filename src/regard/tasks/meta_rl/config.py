"""The run file of meta-reinforcement learning."""

from dataclasses import dataclass, field
from typing import Literal

from regard.models.actor import ActingRecurrentConfig, ActingSnailConfig, Actor
from regard.tasks.meta_rl.actor_critic import ActorCritic
from regard.tasks.meta_rl.data import Bandits, Processes
from regard.tasks.meta_rl.environments import seen_width
from regard.training.settings import Training


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
                "training.label_smoothing is for words; actions are not smoothed, set it to 0"
            )

    def actor(self) -> Actor:
        """The model with fresh weights."""
        states, actions = self.data.sizes_seen
        return Actor(seen_width(states, actions), actions, self.data.steps, self.model)
