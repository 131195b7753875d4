"""Environments to batches, and a loss of what is done in them."""

from collections.abc import Callable, Mapping, Sequence

from torch import Tensor, nn

from regard.data.batching import require_one_batch, token_batches
from regard.models.actor import Actor
from regard.tasks.meta_rl.actor_critic import ActorCritic, loss, loss_of_drawn
from regard.tasks.meta_rl.config import MetaRL
from regard.tasks.meta_rl.environments import Environments
from regard.tasks.meta_rl.metrics import figures
from regard.tasks.meta_rl.trajectories import Trajectories, act
from regard.training.objective import Carried, Loss
from regard.training.processes import whole


def by_regret(logits: Tensor, later: Tensor, done: Trajectories, learning: ActorCritic) -> Tensor:
    """From what every action would have been worth."""
    return loss(logits, later, done.actions, -done.regrets, learning)


def by_reward(logits: Tensor, values: Tensor, done: Trajectories, learning: ActorCritic) -> Tensor:
    """From what was had alone."""
    return loss_of_drawn(logits, values, done.actions, done.rewards, learning)


SIGNALS: Mapping[str, Callable[[Tensor, Tensor, Trajectories, ActorCritic], Tensor]] = {
    "regret": by_regret,
    "reward": by_reward,
}
"""What is learned from, by the run file's name of it."""


class MetaRLObjective:
    """Advantage actor-critic. A batch is environments alone: what is done in them is drawn when the loss is asked for,
    by the policy as it is then."""

    metric, higher_is_better = "regret", False

    def __init__(self, actor: Actor, valid: Sequence[Environments], config: MetaRL):
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
        logits, guesses = model(done.inputs)
        learning = self.config.learning.at(update, self.settings.steps)
        return Loss(SIGNALS[learning.signal](logits, guesses, done, learning), done.actions.numel())

    def validate(self, model: nn.Module) -> dict[str, float]:
        assert isinstance(model, Actor)
        return figures(model, self.valid, next(model.parameters()).device)
