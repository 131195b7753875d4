"""The selection of checkpoints to keep, and early stopping."""

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from regard.training.settings import Training

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
    """The best checkpoints (best first), the recent ones (newest last), the checkpoints of stops since then, and the
    number of validations since the last record."""

    best: list[Validated] = field(default_factory=list)
    recent: list[int] = field(default_factory=list)
    stops: list[int] = field(default_factory=list)
    waited: int = 0
    record: float | None = None

    def observe(self, validated: Validated, settings: Training, higher_is_better: bool) -> bool:
        """Add a validation; True if it is a new record. Of two equals the earlier one is better; NaN is never a
        record."""
        sign = 1.0 if higher_is_better else -1.0
        improved = not math.isnan(validated.value) and (
            self.record is None or sign * validated.value > sign * self.record
        )
        if improved:
            self.record = validated.value
        self.waited = 0 if improved else self.waited + 1
        if not math.isnan(validated.value):
            ranked = sorted([*self.best, validated], key=lambda one: (-sign * one.value, one.update))
            self.best = ranked[: settings.keep_best]
        return improved

    def exhausted(self, settings: Training) -> bool:
        """Whether training ends early."""
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

    @classmethod
    def restore(cls, state: dict[str, Any]) -> "Selection":
        """The selection that `state` was written from."""
        return cls(**{**state, "best": [Validated(**validated) for validated in state["best"]]})
