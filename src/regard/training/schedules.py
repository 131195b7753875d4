"""Learning rates and scheduled sampling by the update, early stopping, and the selection and mean of checkpoints."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import nn

from regard.metrics import rank_ties
from regard.training.settings import PATIENCE, Training


def constant(update: int, warmup: int) -> float:
    """Share of the highest rate: min(1, n / w)."""
    return min(1.0, update / max(1, warmup))


def linear(update: int, warmup: int, steps: int) -> float:
    """Rise to 1 at `warmup`, then fall linearly to 0 just after the last update."""
    return min(constant(update, warmup), _left(update, warmup, steps))


def cosine(update: int, warmup: int, steps: int) -> float:
    """Rise to 1 at `warmup`, then fall as half a cosine to 0 just after the last update."""
    return min(
        constant(update, warmup),
        0.5 - 0.5 * math.cos(math.pi * _left(update, warmup, steps)),
    )


def inverse_square_root(update: int, warmup: int) -> float:
    """min(n^-0.5, n w^-1.5) * w^0.5: 1 at `warmup`, then as n^-0.5.

    With (D w)^-0.5 as the highest rate it is that of Vaswani et al. (2017) for a model
    of width D.
    """
    warmup = max(1, warmup)
    return min((warmup / update) ** 0.5, update / warmup)


def _left(update: int, warmup: int, steps: int) -> float:
    return min(1.0, (steps + 1 - update) / (steps + 1 - warmup))


def rate(settings: Training, update: int) -> float:
    """Return the learning rate of an update (counted from 1)."""
    warmup = settings.warmup
    steps = settings.steps
    match settings.schedule:
        case "constant":
            share = constant(update, warmup)
        case "linear":
            share = linear(update, warmup, steps)
        case "cosine":
            share = cosine(update, warmup, steps)
        case "inverse-square-root":
            share = inverse_square_root(update, warmup)
    return settings.learning_rate * share


def forcing(settings: Training, update: int) -> float:
    """Return the probability of teacher forcing in an update.

    Linear from `teacher_forcing` at the first update to `teacher_forcing_end` at the
    last (Bengio 2015, 1506.03099).
    """
    start = settings.teacher_forcing
    end = settings.teacher_forcing_end
    if end is None or settings.steps == 1:
        return start
    done = (update - 1) / (settings.steps - 1)
    return (1 - done) * start + done * end


RECENT = 2
"""The number of last checkpoints that are always validated: one is left if the newest is damaged."""


@dataclass
class Validated:
    """A checkpoint with its validation."""

    update: int
    value: float
    figures: dict[str, float]


@dataclass
class Selection:
    """The checkpoints to keep, and when training ends early."""

    best: list[Validated] = field(default_factory=list)
    """Best first."""
    recent: list[int] = field(default_factory=list)
    """Newest last."""
    waited: int = 0
    """Validations since the last record."""
    record: float | None = None
    changed: bool = False
    """Whether the metric has changed since the first validation."""

    def observe(
        self,
        validated: Validated,
        settings: Training,
        higher_is_better: bool,
    ) -> bool:
        """Add a validation; True if it is a new record.

        Of two equals the next metrics decide, then the later one is better; NaN is
        never a record.
        """
        sign = 1.0 if higher_is_better else -1.0
        improved = not math.isnan(validated.value) and (
            self.record is None or sign * validated.value > sign * self.record
        )
        self.changed = self.changed or (
            self.record is not None and validated.value != self.record
        )
        if improved:
            self.record = validated.value
        self.waited = 0 if improved else self.waited + 1
        if not math.isnan(validated.value):
            ranked = sorted(
                [*self.best, validated],
                key=lambda candidate: (
                    -sign * candidate.value,
                    *rank_ties(candidate.figures),
                    -candidate.update,
                ),
            )
            self.best = ranked[: settings.keep_best]
        return improved

    def exhausted(self, settings: Training) -> bool:
        """Return whether training ends early."""
        if settings.patience is None:
            return self.changed and self.waited >= PATIENCE
        return 0 < settings.patience <= self.waited

    def add(self, update: int) -> list[int]:
        """Add a checkpoint; return those to remove."""
        steps = [*(step for step in self.recent if step != update), update]
        newest = steps[-RECENT:]
        best = [validated.update for validated in self.best]
        self.recent = [step for step in steps if step in newest or step in best]
        return [step for step in steps if step not in self.recent]


class MovingAverage:
    """average <- d average + (1 - d) weights after every update, with d = min(decay, (1 + n) / (10 + n)).

    The smaller d of the first updates keeps the random initial weights out of short runs. It holds one tensor per
    parameter and allocates nothing per update.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], decay: float) -> None:
        self.parameters = list(parameters)
        self.decay = decay
        self._weights = [parameter.detach() for parameter in parameters]
        self._average = [weights.clone() for weights in self._weights]

    @torch.no_grad()
    def update(self, count: int) -> None:
        """Move towards the weights after update `count`."""
        decay = min(self.decay, (1 + count) / (10 + count))
        torch._foreach_lerp_(self._average, self._weights, 1 - decay)

    @contextmanager
    def use(self) -> Iterator[None]:
        """Replace the weights by the average; restore them afterwards."""
        original = [weights.clone() for weights in self._weights]
        torch._foreach_copy_(self._weights, self._average)
        try:
            yield
        finally:
            torch._foreach_copy_(self._weights, original)
