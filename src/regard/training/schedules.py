"""Learning rates and scheduled sampling as functions of the update, which is counted from 1."""

import math
from dataclasses import dataclass

from regard.training.settings import Training


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
    """min(n^-0.5, n w^-1.5) * w^0.5: 1 at `warmup`, then as n^-0.5. With (D w)^-0.5 as the highest rate it is that of
    Vaswani et al. (2017) for a model of width D."""
    warmup = max(1, warmup)
    return min((warmup / update) ** 0.5, update / warmup)


def _left(update: int, warmup: int, steps: int) -> float:
    return min(1.0, (steps + 1 - update) / (steps + 1 - warmup))


def rate(settings: Training, update: int, plateau: float = 1.0) -> float:
    """The learning rate of an update (counted from 1); `plateau` is the factor of `Plateau`."""
    warmup, steps = settings.warmup, settings.steps
    match settings.schedule:
        case "constant":
            share = constant(update, warmup)
        case "plateau":
            share = constant(update, warmup) * plateau
        case "linear":
            share = linear(update, warmup, steps)
        case "cosine":
            share = cosine(update, warmup, steps)
        case "inverse-square-root":
            share = inverse_square_root(update, warmup)
    return settings.learning_rate * share


def forcing(settings: Training, update: int) -> float:
    """The probability of teacher forcing in an update: linear from `teacher_forcing` at the first
    update to `teacher_forcing_end` at the last (Bengio 2015, 1506.03099)."""
    start, end = settings.teacher_forcing, settings.teacher_forcing_end
    if end is None or settings.steps == 1:
        return start
    done = (update - 1) / (settings.steps - 1)
    return (1 - done) * start + done * end


@dataclass
class Plateau:
    """Multiply the factor by `settings.plateau_factor` after `plateau_patience` validations without improvement."""

    factor: float = 1.0
    waited: int = 0

    def observe(self, improved: bool, settings: Training) -> None:
        """Count one validation."""
        self.waited = 0 if improved else self.waited + 1
        if self.waited >= settings.plateau_patience:
            self.factor *= settings.plateau_factor
            self.waited = 0
