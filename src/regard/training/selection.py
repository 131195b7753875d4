"""The selection of checkpoints to keep, and early stopping."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from regard.training.settings import PATIENCE, Training
from regard.training.state import local

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
    """The best checkpoints (best first), the recent ones (newest last), the checkpoints of stops since then, the number
    of validations since the last record, and whether the metric has changed since the first validation."""

    best: list[Validated] = field(default_factory=list)
    recent: list[int] = field(default_factory=list)
    stops: list[int] = field(default_factory=list)
    waited: int = 0
    record: float | None = None
    changed: bool = False

    def observe(
        self, validated: Validated, settings: Training, higher_is_better: bool
    ) -> bool:
        """Add a validation; True if it is a new record. Of two equals the earlier one is better; NaN is never a
        record."""
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
                [*self.best, validated], key=lambda one: (-sign * one.value, one.update)
            )
            self.best = ranked[: settings.keep_best]
        return improved

    def exhausted(self, settings: Training) -> bool:
        """Whether training ends early."""
        if settings.patience is None:
            return self.changed and self.waited >= PATIENCE
        return 0 < settings.patience <= self.waited

    def saved(self, update: int, settings: Training) -> list[int]:
        """Add a regular checkpoint; return those to remove, those of stops among them."""
        known = [*(step for step in self.recent if step != update), update]
        newest = known[-max(RECENT, settings.average_last) :]
        best = [validated.update for validated in self.best]
        self.recent = [step for step in known if step in newest or step in best]
        outdated = [step for step in [*known, *self.stops] if step not in self.recent]
        self.stops = []
        return outdated

    def stopped(self, update: int) -> list[int]:
        """Add the checkpoint of a stop; return those to remove. It never replaces a regular checkpoint or counts as one
        of the last, since the mean of these would depend on the stop."""
        stops = [*self.stops, update]
        self.stops = stops[-RECENT:]
        return stops[:-RECENT]

    def last(self, count: int) -> list[int]:
        """The updates of the last `count` regular checkpoints."""
        return sorted(self.recent)[-count:]

    def state(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)


class MovingAverage:
    """average <- d average + (1 - d) weights after every update, with d = min(decay, (1 + n) / (10 + n)).

    The smaller d of the first updates keeps the random initial weights out of short runs. Holds one tensor per
    parameter (this process's part, where weights are sharded) and allocates nothing per update.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], decay: float) -> None:
        self.parameters = list(parameters)
        self.decay = decay
        self._weights = [local(parameter) for parameter in parameters]
        self._average = [weights.clone() for weights in self._weights]

    @torch.no_grad()
    def update(self, count: int) -> None:
        """Move towards the weights after update `count`."""
        decay = min(self.decay, (1 + count) / (10 + count))
        torch._foreach_lerp_(self._average, self._weights, 1 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Replace the weights by the average; restore them afterwards."""
        original = [weights.clone() for weights in self._weights]
        torch._foreach_copy_(self._weights, self._average)
        try:
            yield
        finally:
            torch._foreach_copy_(self._weights, original)


def mean(several: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of checkpoints' weights, name by name, summed in fp32; integer buffers are the last one's."""
    result = {}
    for name, last in several[-1].items():
        if not last.is_floating_point():
            result[name] = last
            continue
        total = torch.zeros_like(
            last, dtype=torch.promote_types(last.dtype, torch.float32)
        )
        for weights in several:
            total += weights[name]
        result[name] = (total / len(several)).to(last.dtype)
    return result
