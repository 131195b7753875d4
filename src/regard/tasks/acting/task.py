"""Environments to batches, and a loss of what is done in them."""

from collections.abc import Sequence

from torch import nn

from regard.data.batches import require_one_batch, token_batches
from regard.data.environments import Environments
from regard.inference.acting import act
from regard.models.actor import Actor
from regard.tasks.acting.figures import figures
from regard.tasks.acting.run_file import Acting
from regard.training.actor_critic import loss
from regard.training.processes import whole
from regard.training.task import Carried, Loss


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
